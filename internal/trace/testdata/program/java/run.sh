# Runs programs that fail and keeps what each prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
javac -d classes com/example/Main.java com/example/Wrap.java
java -Xss256k -XX:MaxJavaStackTraceDepth=20 -XX:TieredStopAtLevel=1 -cp classes com.example.Main 2>/dev/null
keep wrap java -cp classes com.example.Wrap
keep javac javac -d classes Broken.java
keep emoji env LC_ALL=C.UTF-8 javac -d classes Emoji.java
keep launcher java Single.java
