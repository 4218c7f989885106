// What the console reads when it starts.
window.HAIER_APP_CONFIG = {
  // Identifier of the system: must not change.
  APP: 'DataService',
  // Single sign-on by a shared cookie; excludes UUC_IS_OPEN.
  UUC_IS_OPEN_PUBLIC_COOKIE: false,
  // Single sign-on by a redirect to the login page, which the browser opens.
  UUC_IS_OPEN: @uucIsOpen@,
  UUC_URL: '@uucUrl/login/@',
  // Paths and text of the logo; empty means the built-in ones.
  UI_FAVICON: '',
  UI_LOGO_URL: '',
  UI_LOGO_TITLE: ''
};
