# Runs programs that fail and keeps what each prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
export GOCACHE=/tmp/cache GOFLAGS=-buildvcs=false GOTOOLCHAIN=local CGO_ENABLED=0
for how in panic nil index goroutine deadlock again repanic deep map; do
  keep "$how" ./plain "$how"
done
keep trimpath ./trimmed panic
keep build go build ./broken
keep binary ./part.test
keep test go test ./part # it compiles the standard library
