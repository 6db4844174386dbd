package config

import (
	"encoding/base64"
	"errors"
	"net/url"
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
		{name: "APPROVAL_WEBHOOK", value: text(&c.ApprovalWebhook, checkHook), secret: true,
			doc: "http or https URL that gets a message when a request waits for an approval, and about each decision (docs/approvals.md). If unset, none is."},
		{name: "APPROVAL_WEBHOOK_KEY", value: text(&c.ApprovalWebhookKey, checkHookKey), secret: true,
			doc: "Key that signs these messages: whsec_ and the base64 of 24 to 64 bytes. If unset, the first start with a webhook makes one and keeps it in the data folder, in webhook-key."},
	}
}

// checkHook accepts a query, because addresses of webhooks often contain a token there.
func checkHook(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return errors.New("must be an http or https URL, without a user and without a fragment")
	}
	return nil
}

func checkHookKey(s string) error {
	text, found := strings.CutPrefix(s, "whsec_")
	if n, err := base64.StdEncoding.DecodeString(text); !found || err != nil || len(n) < 24 || len(n) > 64 {
		return errors.New("must be whsec_ and the base64 of 24 to 64 bytes")
	}
	return nil
}

// checkApproval checks a rule as far as possible here. The service parses the rules when it starts.
func checkApproval(s string) error {
	if s == "" || len(s) > 512 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("is not a rule: rules are words such as network and cpu>2, without spaces")
	}
	return nil
}
