package admission

import (
	"testing"

	"github.com/belljar/belljar"
)

func TestWaive(t *testing.T) {
	operator := belljar.Caller{Role: belljar.RoleAdmin}
	if got, err := waive(operator, []string{"memory", "cpu", "pids"}, []string{"cpu", "landlock"}); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := waive(operator, nil, []string{"everything"}); belljar.CodeOf(err) != belljar.CodeInvalidRequest {
		t.Errorf("an unknown name: %v", err)
	}
	if _, err := waive(belljar.Caller{ID: "x"}, nil, []string{"cpu"}); belljar.CodeOf(err) != belljar.CodePolicyDenied {
		t.Errorf("a stranger: %v", err)
	}
	if got, err := waive(belljar.Caller{}, []string{"cpu"}, nil); err != nil || len(got) != 1 {
		t.Errorf("nothing waived: %v, %v", got, err)
	}
}
