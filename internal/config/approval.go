package config

import (
	"errors"
	"strings"
	"time"
)

func approvals(c *Config) []row {
	return []row{
		{name: "APPROVAL", value: list(&c.Approval, checkApproval), def: "[]",
			doc: "Which requests for runs and sessions wait until an operator approves them: network, image (any but host), image=PATTERN, secrets, git, packages, cpu>N, memory_mb>N, timeout_sec>N, source=NAME (mcp, cli, …). A request that matches one of the rules waits. Operators' own requests match only source rules. Enters the policy hash when not empty."},
		{name: "APPROVAL_TTL_SEC", value: span(&c.ApprovalTTL, time.Second, 1, 31536000), unit: "seconds", def: "3600",
			doc: "Time that a request waits for an approval; then it fails with approval_expired."},
		{name: "MAX_APPROVALS", value: integer(&c.MaxApprovals, 1, 100000), unit: "requests", def: "200", doc: "Requests that wait for an approval. More are refused."},
		{name: "QUOTA_APPROVALS", value: integer(&c.MaxUserApprovals, 1, 100000), unit: "requests", def: "20", doc: "Requests of one user that wait for an approval. More are refused."},
	}
}

// checkApproval checks what needs no knowledge of the rules: the service, which knows them, reads them when it starts.
func checkApproval(s string) error {
	if s == "" || len(s) > 512 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("is not a rule: rules are words such as network and cpu>2, without spaces")
	}
	return nil
}
