//go:build linux

// Package warm prepares interpreters that are started before their command is known.
package warm

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/belljar/belljar/internal/agent/wire"
)

// Interpreter is a program that can be started before its command is known. While it starts, it loads a file of ours, which makes
// it wait (see sitecustomize.py). Settings that a command cannot change later are fixed at its start.
type Interpreter struct {
	prefix   string // of the variables that a command with a parked interpreter must not have
	variable string // names the file for the interpreter
	path     func(dir, given string) string
	Able     bool // it can fork, and can set its own standard input and limits
}

var interpreters = map[string]*Interpreter{
	"python3": {prefix: "PYTHON", variable: "PYTHONPATH", Able: true, path: func(dir, given string) string {
		return strings.TrimSuffix(dir+":"+given, ":")
	}},
	"node": {prefix: "NODE_OPTIONS", variable: "NODE_OPTIONS", path: func(dir, _ string) string {
		return "--require=" + filepath.Join(dir, "node.js")
	}},
}

//go:embed sitecustomize.py
var pythonWaits string

//go:embed node.js
var nodeWaits string

// Socket is the descriptor of an interpreter's messages, which sitecustomize.py explains.
const Socket = 97

// Of returns the interpreter that can be parked for a command, and a key: commands with the same key can use each other's
// interpreter. It returns nil if the command must start cold.
func Of(spec wire.Exec) (in *Interpreter, key string) {
	if spec.Warm == nil || spec.PTY != nil || len(spec.Argv) < 2 || strings.HasPrefix(spec.Argv[1], "-") {
		return nil, ""
	}
	in = interpreters[spec.Argv[0]]
	if in == nil || spec.Stdin && !in.Able {
		return nil, ""
	}
	for _, v := range spec.Env {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, in.prefix) && (name != in.variable || !in.Able) {
			return nil, ""
		}
	}
	limits := spec.Rlimits
	if in.Able {
		limits = nil
	}
	return in, fmt.Sprintf("%q %q %q %d %d %v %q", spec.Argv, spec.Env, spec.Cwd, spec.UID, spec.GID, limits, spec.Warm.Preload)
}

// Environment returns the environment of a parked interpreter, which removes the difference itself.
func (in *Interpreter) Environment(env []string, dir string) []string {
	var list []string
	given := ""
	for _, v := range env {
		if name, value, _ := strings.Cut(v, "="); name == in.variable {
			given = value
		} else {
			list = append(list, v)
		}
	}
	return append(list, in.variable+"="+in.path(dir, given))
}

// Write writes the files that make interpreters wait. They belong to the user, like the interpreters.
func Write(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // a program that has changed them affects only processes of its own user
		}
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, text := range map[string]string{"sitecustomize.py": pythonWaits, "node.js": nodeWaits} {
		if err := root.WriteFile(name, []byte(text), 0o444); err != nil {
			return err
		}
	}
	return root.Chmod(".", 0o555) // so that Python writes no bytecode there
}

// Program identifies the file of an interpreter.
type Program struct {
	path     string
	dev, ino uint64
}

// Look identifies a program. It refuses one that may start another interpreter without our file, which would then execute the
// command's program too early: a script can replace the environment, or add python3's -I.
func Look(path string) (p Program, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return p, err // or the path is relative, and starts at another directory
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return p, err
	}
	var magic [2]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil {
		return p, err
	}
	if string(magic[:]) == "#!" {
		return p, fmt.Errorf("%s is a script", path)
	}
	return Program{path, uint64(st.Dev), st.Ino}, nil
}

// Message is the message that makes an interpreter the process of a command.
func Message(spec wire.Exec, cwd string, limits bool) string {
	words := []string{"0", cwd}
	if spec.Stdin {
		words[0] = "1"
	}
	for name, value := range spec.Rlimits {
		if limits {
			words = append(words, fmt.Sprintf("%s=%d", name, value))
		}
	}
	return strings.Join(words, "\x00")
}
