# Attack: Use the ordinary clients that the image has: curl, wget, Python, requests, Node's fetch, Java's HttpClient, git, pip, npm, go,
#   cargo.
# Why it matters: Each has its own resolver, proxy rules and retries.
# What must hold: Each reaches what is allowed, without a network setting, and is refused the rest within seconds.
# Host: clients
# Run: --memory 1g
# Image on busybox: clients

breach() { echo "BREACH: $*"; touch failed; }

export SSL_CERT_FILE=/workspace/peer.pem CURL_CA_BUNDLE=/workspace/peer.pem REQUESTS_CA_BUNDLE=/workspace/peer.pem GIT_SSL_CAINFO=/workspace/peer.pem
export NODE_EXTRA_CA_CERTS=/workspace/peer.pem PIP_CERT=/workspace/peer.pem PIP_DISABLE_PIP_VERSION_CHECK=1 npm_config_update_notifier=false npm_config_cafile=/workspace/peer.pem
export GIT_TERMINAL_PROMPT=0 GOPATH=/tmp/go GOCACHE=/tmp/gocache GOFLAGS=-mod=mod GOSUMDB=off GOTOOLCHAIN=local GOTELEMETRY=off

# has reports whether the image has a program. The smaller image of clients has few.
has() {
	command -v "$1" >/dev/null && return
	case $LANE_IMAGE-$LANE_TIER-$1 in
	host-*-go | clients-test-python3 | clients-test-node | clients-test-go) echo "$1: not in the image" ;;
	*) breach "control: no $1" ;;
	esac
	return 1
}

# client NAME PROGRAM COMMAND: the command, with the host in $host, prints hello. The other host must be refused soon, however slow the
# program is without it.
client() {
	has "$2" || return 0
	begin=$(date +%s)
	host=api.test sh -c "$3" >"$1.out" 2>"$1.err"
	status=$?
	alone=$(($(date +%s) - begin))
	if [ $status != 0 ] || ! grep -q hello "$1.out"; then
		breach "control: $1 gets status $status: $(tail -n 5 "$1.out" "$1.err")"
	fi
	begin=$(date +%s)
	host=other.test sh -c "$3" >"$1.out" 2>"$1.err"
	status=$?
	took=$(($(date +%s) - begin))
	[ $status != 0 ] || breach "$1 gets from another host: $(cat "$1.out")"
	[ $took -le $((alone * 3 + 20)) ] || breach "$1 is refused after $took s only: $(tail -n 5 "$1.err")"
	echo "$1: refused after $took s: $(grep -v '^ *$' "$1.err" | tail -n 1)"
}

# both NAME PROGRAM COMMAND: the command gets from both hosts, and prints hello, refused and how long that took in seconds.
both() {
	has "$2" || return 0
	sh -c "$3" >"$1.out" 2>"$1.err"
	status=$?
	said=$(tr '\n' ' ' <"$1.out")
	case $said in
	"hello from api.test"*" refused "[0-9]" " | "hello from api.test"*" refused 1"[0-9]" ") echo "$1: $said" ;;
	*) breach "$1: status $status: $said $(tail -n 5 "$1.err")" ;;
	esac
}

cat >fetch.py <<'END'
import sys, time
if sys.argv[1] == "requests":
    try:
        import requests
    except ImportError:
        from pip._vendor import requests
    get = lambda url: requests.get(url).text
else:
    import urllib.request
    get = lambda url: urllib.request.urlopen(url).read().decode()
print(get("https://api.test/"))
begin = time.monotonic()
try:
    print(get("https://other.test/"))
except OSError:
    print("refused", int(time.monotonic() - begin))
END
cat >fetch.js <<'END'
(async () => {
  console.log(await (await fetch("https://api.test/")).text());
  const begin = Date.now();
  await fetch("https://other.test/").then(r => r.text()).then(console.log, () => console.log("refused", Math.floor((Date.now() - begin) / 1000)));
})();
END
cat >Main.java <<'END'
import java.net.URI; import java.net.http.*;
public class Main {
  static String get(String url) throws Exception {
    return HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString()).body();
  }
  public static void main(String[] args) throws Exception {
    System.out.println(get("http://api.test/"));
    long begin = System.nanoTime();
    try { System.out.println(get("http://other.test/")); }
    catch (java.io.IOException e) { System.out.println("refused " + (System.nanoTime() - begin) / 1_000_000_000L); }
  }
}
END

PATH=$PATH:/usr/local/go/bin
client wget wget 'wget -q -T 30 -O - http://$host/'
client curl curl 'curl -sS https://$host/'
client git git 'git ls-remote https://$host/git/app.git | grep refs/heads/main && echo hello'
client go go 'mkdir -p /tmp/m-$host && cd /tmp/m-$host && printf "module x\n" >go.mod && GOPATH=/tmp/go-$host GOPROXY=https://$host/go go mod download -json thing.test/m@v1.0.0 && echo hello'
both python python3 'python3 fetch.py urllib'
both node node 'node fetch.js'
if [ $LANE_TIER = soak ]; then # some take seconds to start
	both requests python3 'python3 fetch.py requests'
	both java java 'java -Xmx128m Main.java'
	client pip python3 'cd /tmp && python3 -m pip download --no-cache-dir --retries 0 -q -d pip-$host --no-deps --index-url https://$host/pip thing && ls pip-$host | grep thing && echo hello'
	client npm npm 'cd /tmp && npm --cache /tmp/npm-$host --fetch-retries=0 --registry https://$host/npm view thing@1.0.0 version && echo hello'
fi
# sparse reports whether cargo is there, and knows sparse indexes. That of a host may not, and that of the image does.
sparse() {
	[ $LANE_IMAGE = clients ] && return
	cargo --version 2>/dev/null | (IFS=' .' read -r _ major minor _ && [ "$((major * 1000 + minor))" -ge 1068 ])
}
if [ $LANE_TIER = soak ] && sparse; then
	export CARGO_HTTP_CAINFO=/workspace/peer.pem CARGO_NET_RETRY=0
	client cargo cargo 'mkdir -p /tmp/c-$host/src /tmp/c-$host/.cargo && cd /tmp/c-$host && touch src/lib.rs &&
		printf "[package]\nname = \"c\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[dependencies]\nthing = \"1\"\n" >Cargo.toml &&
		printf "[source.crates-io]\nreplace-with = \"x\"\n[source.x]\nregistry = \"sparse+https://%s/cargo/\"\n" $host >.cargo/config.toml &&
		CARGO_HOME=/tmp/cargo-$host cargo fetch && ls /tmp/cargo-$host/registry/cache/*/thing-1.0.0.crate && echo hello'
fi
[ ! -e failed ]
