// Package secret reads the secrets of a command line.
package secret

import (
	"io"
	"os"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/cli/mistake"
)

// Parse reads the flags --secret and --broker: NAME, NAME=@FILE or NAME=from:STORED, and NAME=HOST[,header=NAME][,template=TEXT]. Values
// come from the environment and from files, never from the command line, which other users can see.
func Parse(secrets, brokers []string, getenv func(name string) (string, bool)) (map[string]belljar.Secret, error) {
	if len(secrets)+len(brokers) == 0 {
		return nil, nil
	}
	given := make(map[string]belljar.Secret, len(secrets))
	for _, flag := range secrets {
		name, source, sourced := strings.Cut(flag, "=")
		if err := belljar.CheckSecretName("--secret", name); err != nil {
			return nil, err
		}
		if _, twice := given[name]; twice {
			return nil, mistake.New("", "--secret %s: is given twice", name)
		}
		stored, isStored := strings.CutPrefix(source, "from:")
		path, isFile := strings.CutPrefix(source, "@")
		switch {
		case !sourced:
			value, set := getenv(name)
			if !set {
				return nil, mistake.New("set the variable, or name a file: --secret "+name+"=@FILE", "--secret %s: the variable is not set here", name)
			}
			if value == "" {
				return nil, mistake.New("set the variable, or name a file: --secret "+name+"=@FILE", "--secret %s: the variable is empty", name)
			}
			given[name] = belljar.Secret{Value: value}
		case isStored:
			given[name] = belljar.Secret{From: stored}
		case isFile:
			value, err := ReadFile(path)
			if err != nil {
				return nil, mistake.New("", "--secret %s=@%s: %s", name, path, mistake.Reason(err))
			}
			given[name] = belljar.Secret{Value: value}
		default: // the message omits a part that may be a value
			return nil, mistake.New("--secret "+name+" takes the variable "+name+", --secret "+name+"=@FILE a file",
				"--secret %s: a value does not belong on the command line, which other users can see", name)
		}
	}
	return given, broker(given, brokers)
}

// mostSecret is above the maximum length of a secret.
const mostSecret = 64<<10 + 2

// ReadFile reads a secret from a file, as [Read] does.
func ReadFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return Read(f)
}

// Read reads a secret. If the secret is a single line, its line end is not part of it.
func Read(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, mostSecret))
	if err != nil {
		return "", err
	}
	value := string(raw)
	if line, ok := strings.CutSuffix(value, "\n"); ok && !strings.Contains(line, "\n") {
		value = strings.TrimSuffix(line, "\r")
	}
	return value, nil
}
