package program

import "testing"

func TestShellLine(t *testing.T) {
	for text, want := range map[string]bool{
		"ls":                               true,
		"ls -la /":                         true,
		"  echo hi":                        true,
		"cat /etc/passwd | wc -l":          true,
		"cd /tmp && ls":                    true,
		"pwd;ls":                           true,
		"./a.out 1 2":                      true,
		"/bin/true":                        true,
		"apt-get --version":                true,
		"python3 -c 'print(1)'":            true,
		"make\nmake test":                  true,
		"g++ --version":                    true,
		"exit 3":                           true,
		"date >now":                        true,
		"test -f x":                        true,
		"print(1)":                         false,
		"print (1)":                        false,
		"x = 1; print(x)":                  false,
		"x=1; print(x)":                    false,
		"x += 1":                           false,
		"x //= 2":                          false,
		"x: int = 1":                       false,
		"a, b = 1, 2":                      false,
		"d ['k'] = 1":                      false,
		"os.exit(1)":                       false,
		"import os; print(os.getcwd())":    false,
		"from os import getcwd":            false,
		"for i in range(3): print(i)":      false,
		"with open('f') as f:\n  print(f)": false,
		"raise SystemExit(3)":              false,
		"assert True":                      false,
		"x if y else z":                    false,
		"1 + 1":                            false,
		"'text'":                           false,
		"# a comment\nprint(1)":            false,
		"@decorator\ndef f(): pass":        false,
		"":                                 false,
	} {
		if got := shellLine(text); got != want {
			t.Errorf("shellLine(%q) = %v, want %v", text, got, want)
		}
	}
}
