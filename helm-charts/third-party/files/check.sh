# Succeeds when CHECK_URL answers; says why on standard error when it does not.
case $CHECK_URL in
http://* | https://*)
  exec curl --head --fail --silent --show-error --globoff --max-time 7 --output /dev/null --url "$CHECK_URL"
  ;;
esac
hosts=${CHECK_URL#*://}
hosts=${hosts%%[/?#]*}
seconds=6
case $hosts in *,*) seconds=3 ;; esac
IFS=,
# One host of a list is enough.
for address in $hosts; do
  port=$CHECK_PORT
  case $address in
  \[*\]:*) port=${address##*:} host=${address%:*} ;;
  \[*) host=$address ;;
  *:*) port=${address##*:} host=${address%:*} ;;
  *) host=$address ;;
  esac
  host=${host#[}
  host=${host%]}
  nc -z -w "$seconds" "$host" "$port" && exit 0
done
echo "no connection to $hosts" >&2
exit 1
