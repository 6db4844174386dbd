package belljar

import (
	"fmt"
	"slices"
	"strings"
)

// TrustLevel is how far the code of a request is trusted. The policy maps each level to the weakest permitted isolation.
type TrustLevel string

// The trust levels.
const (
	TrustTrusted   TrustLevel = "trusted"   // your own code, or code that you have reviewed
	TrustStandard  TrustLevel = "standard"  // from a model, or a known user
	TrustUntrusted TrustLevel = "untrusted" // from an unknown source
)

// TrustLevels returns the trust levels, the most trusted first.
func TrustLevels() []TrustLevel { return []TrustLevel{TrustTrusted, TrustStandard, TrustUntrusted} }

// Isolations returns the classes of isolation that a request may set, the weakest first: the kernel's namespaces, a kernel in
// user space, a virtual machine.
func Isolations() []string { return []string{"namespace", "user_space_kernel", "microvm"} }

// checkIsolation checks the isolation fields of a request.
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
