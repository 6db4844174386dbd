package belljar

import (
	"fmt"
	"slices"
	"strings"
)

// TrustLevel is how far the code of a request is trusted. The policy says for each the weakest isolation it may run in.
type TrustLevel string

// The trust levels.
const (
	TrustTrusted   TrustLevel = "trusted"   // ours, or read by us
	TrustStandard  TrustLevel = "standard"  // a model's, or a known user's
	TrustUntrusted TrustLevel = "untrusted" // from an unknown source
)

// TrustLevels are the trust levels, the most trusted first.
func TrustLevels() []TrustLevel { return []TrustLevel{TrustTrusted, TrustStandard, TrustUntrusted} }

// Isolations are the classes of isolation that a request may ask for, the weakest first: the kernel's namespaces, a kernel in
// user space, a virtual machine.
func Isolations() []string { return []string{"namespace", "user_space_kernel", "microvm"} }

// checkIsolation checks what a request says about the isolation of its program.
func checkIsolation(isolation string, trust TrustLevel) error {
	if isolation != "" && !slices.Contains(Isolations(), isolation) {
		e := invalid("isolation", "isolation %.40q does not exist", isolation)
		e.Details["supported"] = Isolations()
		e.Hint = "one of: " + strings.Join(Isolations(), ", ")
		return e
	}
	if trust != "" && !slices.Contains(TrustLevels(), trust) {
		e := invalid("trust_level", "trust_level %.40q does not exist", trust)
		e.Details["supported"] = TrustLevels()
		e.Hint = fmt.Sprintf("one of: %s, %s, %s", TrustTrusted, TrustStandard, TrustUntrusted)
		return e
	}
	return nil
}
