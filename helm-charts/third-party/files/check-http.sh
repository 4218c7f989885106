# Succeeds when CHECK_URL answers with a status below 500; prints the cause on standard error when it does not. A server that refuses HEAD gets
# GET, too.
for method in --head --get; do
  code=$(curl "$method" --silent --show-error --globoff --max-time 7 --output /dev/null --write-out '%{http_code}' --url "$CHECK_URL")
  case $code in
  [123]??) exit 0 ;;
  4??) [ "$method" = --head ] || exit 0 ;;
  000) exit 1 ;;
  esac
done
echo "$CHECK_URL answers with status $code" >&2
exit 1
