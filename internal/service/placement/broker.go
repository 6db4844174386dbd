package placement

import (
	"maps"
	"path"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/agent/wire"
	"github.com/belljar/belljar/internal/egress"
)

// javaVar contains options for every Java virtual machine.
const javaVar = "JAVA_TOOL_OPTIONS"

// Broker is the brokered secrets of a sandbox.
type Broker struct {
	Egress       *egress.Broker
	Placeholders map[string]string // their placeholders, by variable
}

// environment adds the variables that programs need to use brokered secrets. They override trust settings of the image and the operator.
func (b *Broker) environment(env map[string]string) {
	maps.Copy(env, b.Placeholders)
	Trusting(env)
}

// Trusting adds the variables that make programs trust the authorities of their sandbox's agent ([wire.OpTrust]), besides the image's.
func Trusting(env map[string]string) {
	for _, name := range belljar.TrustVars() {
		env[name] = path.Join(path.Dir(belljar.SecretDir), wire.TrustDir, wire.TrustBundle)
	}
}

// java adds the authorities to Java's options, which the image and the caller may have set as well.
func (b *Broker) java(env map[string]string) {
	trust := "-Djavax.net.ssl.trustStoreType=JKS -Djavax.net.ssl.trustStore=" + path.Join(path.Dir(belljar.SecretDir), wire.TrustDir, wire.TrustStore)
	env[javaVar] = strings.TrimSpace(env[javaVar] + " " + trust)
}
