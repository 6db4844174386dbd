//go:build linux

package service_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// elsewhere are the tests, by file and name, of the events that no operation of [audits] has.
var elsewhere = map[string]string{
	"turns_test.go TestQueued":                            "RunCreated RunQueued RunStarting RunRunning RunKilled",
	"recover_test.go TestRecover":                         "RunFailed",
	"session_test.go TestSession":                         "SessionEnded",
	"session_open_test.go TestOpen":                       "SessionResumed",
	"session_network_test.go TestNetworkChangeIsRecorded": "SessionNetwork",
	"session_close_test.go TestRetain":                    "SessionRetained",
	"audited_test.go TestRevivalAudited":                  "SessionRevived",
	"hibernate_test.go TestHibernate":                     "SessionHibernated SessionWoken",
	"session_upload_test.go TestSessionUpload":            "Uploaded",
	"stdin_test.go TestInteractive":                       "StdinClosed",
	"actor_test.go TestActor":                             "TerminalOpened TerminalEnded",
	"port/preview_test.go TestPreview":                    "PortOpened PortClosed PreviewCreated PreviewEnded",
	"approval_test.go TestApproval":                       "ApprovalRequested ApprovalApproved",
	"approval_test.go TestApprovalRefused":                "ApprovalDenied ApprovalExpired",
	"approval_test.go TestApprovalSurvives":               "ApprovalWithdrawn",
	"token_test.go TestTokens":                            "TokenCreated TokenRevoked",
	"secret_test.go TestStoredSecrets":                    "SecretSet SecretRemoved SecretUsed",
	"quota_test.go TestCPUQuota":                          "Denied",
	"image/image_test.go TestImportIsRecorded":            "ImageImported",
	"image/image_test.go TestRemoveInUse":                 "ImageRemoved",
	"image/image_test.go TestSweep":                       "ImagesPruned",
	"../api/auth/signin_test.go TestSignIn":               "SignInCode SignedIn SignedOut",
	"../api/stream/token_test.go TestSignedURL":           "AuthFailed",
	"../../test/e2e/network_test.go TestNetwork":          "EgressAllowed EgressDenied",
	"../../test/e2e/network_test.go TestNetworkNames":     "EgressNames",
}

var auditEvent = regexp.MustCompile(`(?m)^\t(\w+) += "(sandbox\.[a-z_.]+)"`)

// Every event of the audit trail has a test that requires it.
func TestEveryEventIsAudited(t *testing.T) {
	tested := map[string]bool{}
	for _, op := range audits(newGallery(t), nil) {
		tested[op.name] = true
	}
	names := auditEvent.FindAllStringSubmatch(text(t, "../event/event.go"), -1)
	for test, events := range elsewhere {
		file, name, _ := strings.Cut(test, " ")
		_, body, ok := strings.Cut(text(t, file), "\nfunc "+name+"(")
		body, _, _ = strings.Cut(body, "\n}\n")
		if !ok {
			t.Errorf("there is no test %s", test)
		}
		for event := range strings.FieldsSeq(events) {
			i := slices.IndexFunc(names, func(m []string) bool { return m[1] == event })
			if i < 0 || !strings.Contains(body, "event."+event) && !strings.Contains(body, names[i][2]) {
				t.Errorf("%s does not check event %s", test, event)
				continue
			}
			tested[names[i][2]] = true
		}
	}
	for _, m := range names {
		if !tested[m[2]] {
			t.Errorf("no test requires event %s", m[1])
		}
	}
	if len(names) < 50 {
		t.Errorf("only %d events are found", len(names))
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
