set -u
f() {
  echo "$nothing"
}
f
