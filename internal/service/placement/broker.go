package placement

import (
	"maps"
	"path"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/egress"
)

// javaVar has options of every Java virtual machine.
const javaVar = "JAVA_TOOL_OPTIONS"

// Broker is the brokered secrets of a sandbox.
type Broker struct {
	Egress       *egress.Broker
	Placeholders map[string]string // what programs see of them, by variable
}

// environment adds what programs need to use brokered secrets. What the image and the operator's settings say about trust gives way.
func (b *Broker) environment(env map[string]string) {
	maps.Copy(env, b.Placeholders)
	Trusting(env)
}

// Trusting adds what has programs trust the authorities that were given to their sandbox's agent ([wire.OpTrust]), besides the image's.
func Trusting(env map[string]string) {
	for _, name := range belljar.TrustVars() {
		env[name] = path.Join(path.Dir(belljar.SecretDir), wire.TrustDir, wire.TrustBundle)
	}
}

// java adds the authorities to the options of Java, which the image and the caller may have set as well.
func (b *Broker) java(env map[string]string) {
	trust := "-Djavax.net.ssl.trustStoreType=JKS -Djavax.net.ssl.trustStore=" + path.Join(path.Dir(belljar.SecretDir), wire.TrustDir, wire.TrustStore)
	env[javaVar] = strings.TrimSpace(env[javaVar] + " " + trust)
}
