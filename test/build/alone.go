package build

import (
	"os"
	"strings"
)

// aloneEnv says to the programs that tests start that their environment is the tests' own.
const aloneEnv = "BELLJAR_TEST_ALONE"

// Alone is for TestMain: the tests see nothing of what whoever started them has set for other belljars, engines and proxies, and
// nothing is late that says no time of its own. What the tests start afterwards has what they give it.
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

// Patient is the environment of a belljar on a machine that has other things to do as well.
func Patient() []string {
	return []string{"SANDBOX_DEFAULT_STARTUP_TIMEOUT_SEC=300", "SANDBOX_DEFAULT_EXEC_TIMEOUT_SEC=300"}
}

// foreign reports whether a variable tells a belljar, or who speaks with one, what to do.
func foreign(name string) bool {
	switch name {
	case "BELLJAR_SERVER", "BELLJAR_API_KEY", "SESSION_TOKEN_SECRET":
		return true
	}
	return strings.HasPrefix(name, "SANDBOX_") || strings.HasPrefix(name, "DOCKER_") || strings.HasSuffix(strings.ToLower(name), "_proxy")
}
