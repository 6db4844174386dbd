package belljar_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/belljar/belljar"
)

// TestLanguageCommands lists the command line of every language, including those that this machine lacks.
func TestLanguageCommands(t *testing.T) {
	want := map[string]string{
		"py":   `python3|x.py|a|b c`,
		"js":   `node|x.js|a|b c`,
		"ts":   `node|--experimental-strip-types|--no-warnings|x.ts|a|b c`,
		"sh":   `bash|x.sh|a|b c`,
		"rb":   `ruby|x.rb|a|b c`,
		"pl":   `perl|x.pl|a|b c`,
		"java": `javac|-J-XX:TieredStopAtLevel=1|-d|out/p|x.java or java|-XX:TieredStopAtLevel=1|-m|jdk.compiler/com.sun.tools.javac.Main|-d|out/p|x.java then java|-cp|out/p:.|x|a|b c`,
		"go":   `go|build|-o|out/p|x.go then out/p|a|b c`,
		"c":    `cc|-o|out/p|x.c|-lm or gcc|-o|out/p|x.c|-lm or clang|-o|out/p|x.c|-lm then out/p|a|b c`,
		"cpp":  `c++|-o|out/p|x.cpp or g++|-o|out/p|x.cpp or clang++|-o|out/p|x.cpp then out/p|a|b c`,
		"rs":   `rustc|--edition|2021|-o|out/p|x.rs then out/p|a|b c`,
	}
	for _, l := range belljar.Languages() {
		file, args := "x."+l.Extensions[0], []string{"a", "b c"}
		var got string
		if l.Compiled() {
			compilers, program := l.Build(file, "", "out/p", args)
			var all []string
			for _, argv := range compilers {
				all = append(all, strings.Join(argv, "|"))
			}
			got = strings.Join(all, " or ") + " then " + strings.Join(program, "|")
		} else {
			got = strings.Join(l.Command(l.Programs[0], file, args), "|")
		}
		if got != want[l.Extensions[0]] {
			t.Errorf("%s: %s, want %s", l.Name, got, want[l.Extensions[0]])
		}
	}
}

// A file name that begins with a dash is not parsed as an option.
func TestLanguageOperand(t *testing.T) {
	for _, l := range belljar.Languages() {
		var argv []string
		if l.Compiled() {
			compilers, _ := l.Build("-x", "", "p", nil)
			argv = compilers[0]
		} else {
			argv = l.Command(l.Programs[0], "-x", nil)
		}
		if slices.Contains(argv, "-x") || !slices.Contains(argv, "./-x") {
			t.Errorf("%s: %q", l.Name, argv)
		}
	}
}

// Java's compiler requires the file name of the public class, and the JVM the name of the class with main.
func TestJavaNames(t *testing.T) {
	l, _ := belljar.LanguageOf("java")
	for _, test := range []struct{ text, file, runs string }{
		{"public class Main { public static void main(String[] a) { } }", "Main.java", "Main"},
		{"class Anything { static public void main(String... a) { } }", "main.java", "Anything"},
		{"class A { } class B { public static void main(String[] a) { } } class C { static void main(String[] a) { } }", "main.java", "B"},
		{"package a.b; public final class P { }", "P.java", "a.b.P"},
		{"import java.util.*;\n@Deprecated public sealed interface I permits J { static void main(String[] a) {} } record J(int x) implements I {}", "I.java", "I"},
		{"enum E { X { void f() {} }; public static void main(String[] a) {} }", "main.java", "E"},
		{"record R(int main) { public static void main(String[] a) {} }", "main.java", "R"},
		{"/* public class No { */ // public class No2 {\nclass Yes { String s = \"} public class No3 {\"; char c = '\\'', d = '{'; static void main(String[] a) {} }", "main.java", "Yes"},
		{"class T { String s = \"\"\"\n } class No { \\\"\"\" \"\"\"; public static void main(String[] a) {} }", "main.java", "T"},
		{"class A { class Inner { public static void main(String[] a) {} } } class B { public static void main(String[] a) {} }", "main.java", "B"},
		{"class A { Object o = String.class; } public class Z { public static void main(String[] a) {} }", "Z.java", "Z"},
		{"@interface An { } public class Y { public static void main(String[] a) {} }", "Y.java", "Y"},
		{"void main() { }", "main.java", "x"},
		{"class Empty { }", "main.java", "Empty"},
		{"", "main.java", "x"},
		{"}}} public class", "main.java", "x"},
		{"class \"", "main.java", "x"},
		{"public class Gr\u00fc\u00dfe<T extends Comparable<T>> { public static void main(String[] a) {} }", "Gr\u00fc\u00dfe.java", "Gr\u00fc\u00dfe"},
	} {
		_, program := l.Build("dir/x.java", test.text, "p", nil)
		if file, runs := l.FileOf(test.text), program[len(program)-1]; file != test.file || runs != test.runs {
			t.Errorf("%s\nis in %s and runs as %s, want %s and %s", test.text, file, runs, test.file, test.runs)
		}
	}
}

func TestLanguagesDoNotOverlap(t *testing.T) {
	seen := map[string]string{}
	for _, l := range belljar.Languages() {
		for _, extension := range l.Extensions {
			if other := seen[extension]; other != "" {
				t.Errorf(".%s is both %s and %s", extension, other, l.Name)
			}
			seen[extension] = l.Name
		}
	}
}

func TestLanguageNames(t *testing.T) {
	seen := map[string]string{}
	for _, l := range belljar.Languages() {
		for _, alias := range l.Aliases {
			if other := seen[alias]; other != "" {
				t.Errorf("%s is both %s and %s", alias, other, l.Name)
			}
			seen[alias] = l.Name
			if got, ok := belljar.LanguageOf(strings.ToUpper(alias)); !ok || got.Name != l.Name {
				t.Errorf("LanguageOf(%s) = %s, %t", alias, got.Name, ok)
			}
		}
	}
	if l, ok := belljar.LanguageOf(""); ok {
		t.Errorf("no name is %s", l.Name)
	}
}

// Without a lookup, the program is found inside the sandbox: the first one that exists, by name.
func TestProgramIsFoundInside(t *testing.T) {
	bin := t.TempDir()
	l := belljar.Language{Name: "x", Extensions: []string{"x"}, Programs: []string{"first", "second", "third"}}
	run := func() string {
		argv := l.Command("", "a file", []string{"b c", ""})
		cmd := exec.Command("/bin/sh", argv[1:]...)
		cmd.Env = []string{"PATH=" + bin}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if got := run(); !strings.Contains(got, "first") {
		t.Errorf("without any: %q", got)
	}
	for _, name := range []string{"second", "first"} {
		text := "#!/bin/sh\nprintf '%s|' " + name + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, want := run(), name+"|a file|b c||"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
