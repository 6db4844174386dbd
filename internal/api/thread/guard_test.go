package thread

// make test runs decisions about commands without the race detector: they use one goroutine.

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"testing"
)

func guard(t testing.TB, allowed ...string) *Guard {
	t.Helper()
	if len(allowed) > 0 {
		allowed = append(allowed, AllowedCommands()...)
	}
	g, err := NewGuard(allowed, nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPlainGuardAllows(t *testing.T) {
	g := guard(t)
	for _, command := range []string{
		"ls", "jq '.[] | select(.amount > 100)' data.json", "cat a | grep b && wc -l < c || echo none; date",
		"echo '{\"data\": [1,2,3]}' > input.json", "for f in *.txt; do wc -l \"$f\"; done", "if [[ -f x ]]; then cat x; fi",
		"grep 'rm -rf' script.sh", `grep "curl" log`, "cat <<EOF\nrm is only text here\nEOF", "# rm\nls",
		"X=1 python3 -c 'print(1)'", "X=$(date) ; echo \"$X\"", "count() { wc -l \"$@\"; }; count a b", "count() { wc -l; }\nfor f in a b; do\ncount < $f | head\ndone", "( ls ); { ls; }",
		"find . -name '*.csv' -exec cat {} +", "time ls", "! grep x y", "while read_it=$(head -1 f); do echo \"$read_it\"; done",
		"(( 1 + 1 )); [[ a == b ]] || echo \"$(( 2 * 3 ))\"", "sort < in > out 2>&1 &", "case x in a) ls;; *) date;; esac",
		"awk '{ print $1 }' f | sort | uniq -c | sort -rn | head -5", "ls \\\n  -la", "l\\s", "'ls' -l", `"l"s`,
	} {
		if err := g.Check(command); err != nil {
			t.Errorf("%s\n%v", command, err)
		}
	}
}

func TestPlainGuardRefuses(t *testing.T) {
	const rm = `\brm\b`
	for command, want := range map[string]string{
		"rm -rf /workspace/*": rm, "ls; rm x": rm, "ls;rm x": rm, "ls\nrm x": rm, "ls & rm x": rm, "ls|rm x": rm, "ls && rm x": rm,
		"echo $(rm x)": rm, "echo `rm x`": rm, "echo \"$(rm x)\"": rm, "cat <(rm x)": rm, "(rm x)": rm, "{ rm x; }": rm,
		"if rm x; then ls; fi": rm, "f() { rm x; }; ls": rm, "cat <<EOF\n$(rm x)\nEOF": rm, "echo ${x:-$(rm y)}": rm,
		"echo $(( $(rm x) + 1 ))": rm, "RM x": rm, "r\\m x": rm, "'rm' x": rm, `"r"m x`: rm, "ls > $(rm x)": rm, "X=$(rm y)": rm,
		"find . -exec rm {} +": rm, "find . -exec 'rm' {} +": rm, "time rm x": rm, "! rm x": rm, "coproc rm x": rm, "rm() { ls; }": rm,
		"case $(rm x) in *) ls;; esac": rm, "for i in $(rm x); do ls; done": rm, "[[ -n $(rm x) ]]": rm, "echo rm": rm,
		"curl http://x": `\bcurl\b`, "ls | sudo cat": `\bsudo\b`,
		"bash": "", "/bin/ls": "", "./x": "", "$X": "", "$(echo ls)": "", "${x}ls": "", "{ls,-l}": "", "l?": "", "~/x": "", "export A=1": "",
		"eval ls": "", "source x": "", ". x": "", "exec ls": "", "xargs ls": "", "$'\\x72m' x": "", "printf x": "", "alias ls=x": "",
		"env ls": "", "find . -exec touch {} +": "", "find . -ok 'touch' {} ;": "", "find . -execdir $X ;": "",
	} {
		err := guard(t).Check(command)
		var r *refusal
		if !errors.As(err, &r) {
			t.Errorf("%q is allowed", command)
			continue
		}
		if r.pattern != want {
			t.Errorf("%q: %v, pattern %q, want %q", command, err, r.pattern, want)
		}
	}
	// A function's name is allowed only where the function is defined.
	for _, command := range []string{
		"touch x; touch() { ls; }", "if false; then touch() { ls; }; fi; touch x", "(touch() { ls; }); touch x", "ls && touch() { ls; }; touch x",
		"touch() { ls; } & touch x", "touch() { ls; } | cat; touch x", "a() { touch x; }; a; touch() { ls; }", "while false; do f() { ls; }; done; f",
		"f() { g() { ls; }; }; g x", "touch() { touch x; }; touch",
	} {
		if err := guard(t).Check(command); err == nil {
			t.Errorf("%s is allowed", command)
		}
	}
	for command, want := range map[string]string{
		"": "Empty command", " \n\t": "Empty command", "ls 'x": "Invalid command syntax: ", "ls (": "Invalid command syntax: ",
		"if ls": "Invalid command syntax: ", "ls )": "Invalid command syntax: ", "touch x": "Command 'touch' not in whitelist. Allowed: awk, cat, cut, ",
		"$X y": "Command '$X' is known only when it runs", strings.Repeat("ls;", 30000): "Command is longer than",
		strings.Repeat("find . -exec ", 12) + "ls {} +":            "Invalid command syntax: nested too deeply", // each is checked once for every find before it
		"find ." + strings.Repeat(` -exec cat {} \;`, maxInside+1): "Invalid command syntax: nested too deeply",
	} {
		if err := guard(t).Check(command); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", command, err, want)
		}
	}
}

// TestPlainGuardMatchesPatternsFirst checks that patterns are searched in all unquoted parts of a command, before other
// checks.
func TestPlainGuardMatchesPatternsFirst(t *testing.T) {
	const env, piped = `\.env\b`, `\bcat\b.*\|\s*sh\b`
	g, err := NewGuard(nil, append(DeniedPatterns(), env, piped))
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"cd /tmp && rm -rf x": `\brm\b`, "touch x; ls; RM y": `\brm\b`, "$X; rm y": `\brm\b`, "rm 'x": `\brm\b`, "ls | rm (": `\brm\b`,
		"cat < .env": env, "ls > .env": env, "X=.env cat x": env, "for f in .env; do cat x; done": env, "[[ -f .env ]]": env,
		"cat a | sh": piped, "cat 'a b' |sh": piped,
	} {
		var r *refusal
		if err := g.Check(command); !errors.As(err, &r) || r.pattern != want {
			t.Errorf("%q: %v, want pattern %q", command, err, want)
		}
	}
	for _, command := range []string{
		`cat < ".env"`, "cat '.env'", "cat a # .env", "# .env\ncat a", "cat <<E\n.env\nE", "cat <<'E'; ls \"rm\"\n.env\nE\ncat a", "cat <<-E\n\t.env\n\tE",
		`echo "a $(cat ".env") rm"`, "echo $'.env' `cat '.env'`",
	} {
		if err := g.Check(command); err != nil {
			t.Errorf("%q: %v", command, err)
		}
	}
}

func TestPlainGuardLooksIntoRunners(t *testing.T) {
	g := guard(t, "env", "xargs", "bash", "eval", "timeout", "nice", "nohup", "command", "time")
	for _, command := range []string{
		"env X=1 ls", "env -u X ls -l", "ls | xargs cat", "xargs -n 1 -I {} grep x {}", "bash -c 'ls | wc -l'", "eval 'ls; date'",
		"timeout 5 ls", "timeout -k 1 5 ls", "nice -n 5 sort x", "nohup cat x", "command ls", "env", "xargs --max-args=1 cat", "timeout --signal=KILL 5 ls",
		"xargs -Id cat d", "xargs -0I {} cat {}", "nice -n5 sort x", "env -iu X ls",
	} {
		if err := g.Check(command); err != nil {
			t.Errorf("%s\n%v", command, err)
		}
	}
	for _, command := range []string{
		"env X=1 touch y", "env -u X touch", "ls | xargs touch", "xargs -n 1 touch", "bash -c 'touch x'", "bash -lc 'ls; touch x'",
		"bash script", "bash", "bash -s", "bash -c \"$X\"", "eval \"$X\"", "eval touch x", "timeout 5 touch", "timeout -k 1 5 touch x",
		"nice touch x", "nohup -- touch x", "command touch", "env -S 'touch x'", "xargs --null touch", "env env env touch x",
		"bash -c 'bash -c \"touch x\"'", "bash -c 'touch() { ls; }'; touch x", "touch() { ls; }; bash -c 'touch x'", "xargs bash -c 'touch x'", "time timeout 5 touch x",
		"xargs -IE touch cat", "env -iS 'touch x'", "env -vS'touch x'", "env --split='touch x'",
	} {
		if err := g.Check(command); err == nil {
			t.Errorf("%s is allowed", command)
		}
	}
}

// TestPlainGuardBounded checks deep commands, which must not exhaust the server's memory.
func TestPlainGuardBounded(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(256 << 20)) // a deeper stack ends the process
	for _, part := range []string{
		"(", "{ ", "$(", "`", "\"$(", "${x:-", "((", "$((", "[[ ( ", "if ", "while ", "! ", "a=(", "a[", "<(", "case x in x) ", "f() { ", "~", "1?", "2**", "-",
		"ls && ", "ls | ", "x=", "\\", "'", "\"", "<<a\n", "{a,", "coproc ", "time ", "for i in x; do ", "ls; ", "find -exec ",
	} {
		for _, prefix := range []string{"", "((", "echo "} {
			text := prefix + strings.Repeat(part, (maxCommand-len(prefix))/len(part))
			_ = guard(t).Check(text) // it must return
		}
	}
}

// TestPlainGuardNeverPassesAStranger builds commands around a program that is not allowed: all must be refused.
func TestPlainGuardNeverPassesAStranger(t *testing.T) {
	g := guard(t, "env", "xargs", "bash")
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	frames := []string{
		"%s", "ls; %s", "ls\n%s\n", "ls | %s", "ls && %s", "ls || %s", "%s &", "( %s )", "{ %s; }", "echo $(%s)", "echo \"x $(%s) y\"", "cat <(%s)",
		"if %s; then ls; fi", "if ls; then %s; else date; fi", "while %s; do ls; done", "for i in a b; do %s; done", "case x in x) %s;; esac", "f() { %s; }; f",
		"time %s", "! %s", "X=$(%s)", "ls > \"$(%s)\"", "echo ${x:-$(%s)}", "cat <<E\n$(%s)\nE\n", "echo $(( $(%s) ))", "[[ -n $(%s) ]]", "X=1 %s",
		"select x in a; do %s; done", "until %s; do ls; done", "a=( $(%s) )", "ls 2>&1 | ( cat; %s )",
	}
	strangers := []string{"touch x", "'touch' x", "to\\uch x", "\"touch\" x", "env touch x", "env A=1 touch x", "xargs -0 touch", "bash -c 'touch x'", "find . -exec touch {} +"}
	for range 5000 {
		command := strangers[random.IntN(len(strangers))]
		for range 1 + random.IntN(4) {
			frame := frames[random.IntN(len(frames))]
			if strings.Contains(command, "\n") && strings.Contains(frame, "<<E") {
				continue // a heredoc inside a heredoc of the same name is another command
			}
			command = fmt.Sprintf(frame, command)
		}
		if err := g.Check(command); err == nil {
			t.Fatalf("seed %d: allowed:\n%s", seed, command)
		}
	}
}

func FuzzGuard(f *testing.F) {
	for _, seed := range []string{"ls", "rm x", "echo $(ls)", "find . -exec cat {} ;", "bash -c 'ls'", "if", "cat <<E\nx\nE"} {
		f.Add(seed)
	}
	g, err := NewGuard(append(AllowedCommands(), "env", "bash", "eval", "xargs"), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, command string) {
		if err := g.Check(command); err != nil {
			var r *refusal
			if !errors.As(err, &r) || r.message == "" {
				t.Errorf("%q: %v is no refusal", command, err)
			}
		}
	})
}
