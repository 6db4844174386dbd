package build

import (
	"os"
	"strings"
)

// aloneEnv marks an environment that the tests have set up themselves.
const aloneEnv = "BELLJAR_TEST_ALONE"

// Alone is for TestMain: it removes the caller's settings for belljars, engines and proxies, and sets generous default timeouts.
// Programs that the tests start inherit the result.
func Alone() error {
	if os.Getenv(aloneEnv) != "" {
		return nil
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); foreign(name) {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	usualMask()
	for _, patience := range Patient() {
		name, value, _ := strings.Cut(patience, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return os.Setenv(aloneEnv, "1")
}

// Patient returns the environment of a belljar on a busy machine.
func Patient() []string {
	return []string{"SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC=300", "SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC=300"}
}

// foreign reports whether a variable configures a belljar or its client.
func foreign(name string) bool {
	switch name {
	case "BELLJAR_SERVER", "BELLJAR_API_KEY", "SESSION_TOKEN_SECRET":
		return true
	}
	return strings.HasPrefix(name, "SANDBOX_") || strings.HasPrefix(name, "DOCKER_") || strings.HasSuffix(strings.ToLower(name), "_proxy")
}
