package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/placement"
)

// Question is a request whose need for an approval is being decided.
type Question struct {
	Caller    belljar.Caller
	Run       *belljar.RunSpec     // nil for a session
	Session   *belljar.SessionSpec // nil for a run
	Placement *placement.Placement
	Network   belljar.NetworkSpec // in force
	// SessionTimeout is the default timeout of the runs in the run's session: it was approved with the session.
	SessionTimeout float64

	imageNames []string // names of the local image that the request names by its digest
}

// inSession reports whether the request runs in a session's sandbox, which was approved with its session.
func (q Question) inSession() bool { return q.Run != nil && q.Run.SessionID != "" }

// builds reports whether the request compiles its program first.
func (q Question) builds() bool {
	if q.Run == nil {
		return false
	}
	l, _ := belljar.LanguageOf(q.Run.Language)
	return l.Compiled()
}

// wishes returns the secrets, repository and packages of the request.
func (q Question) wishes() (map[string]belljar.Secret, *belljar.GitSpec, belljar.Packages) {
	if q.Run != nil {
		return q.Run.Secrets, q.Run.Git, q.Run.Packages
	}
	return q.Session.Secrets, q.Session.Git, q.Session.Packages
}

// subject is the subject of a rule of SANDBOX_APPROVAL. Exactly one of its functions is set.
type subject struct {
	name string
	// asked returns the value that the request sets, "" for none: rule `name`.
	asked func(Question) string
	// amount is the amount that the request sets: rule `name>N`.
	amount func(Question) float64
	// is reports whether the value of a rule is that of the request: rule `name=value`. It may be set alone or along with asked.
	is func(q Question, value string) bool
	// agents marks a rule about programs that act in a caller's name, whatever the caller may do: it applies to operators, too.
	agents bool
}

// subjects returns the subjects of all rules.
func subjects() []subject {
	return []subject{
		{name: "network", asked: askedNetwork},
		{name: "image", asked: askedImage, is: func(q Question, pattern string) bool {
			ref := askedImage(q)
			return ref != "" && mayBe(pattern, ref, q.imageNames)
		}},
		{name: "secrets", asked: askedSecrets},
		{name: "git", asked: askedGit},
		{name: "packages", asked: func(q Question) string {
			_, _, packages := q.wishes()
			what := strings.Join(slices.Concat(packages.Pip, packages.Npm), " ")
			if what != "" && packages.Build {
				what += " (with build scripts)"
			}
			return what
		}},
		{name: "cpu", amount: func(q Question) float64 { return ofSandbox(q, q.Placement.Limits.CPU) }},
		{name: "memory_mb", amount: func(q Question) float64 { return ofSandbox(q, float64(q.Placement.MemoryMB())) }},
		{name: "timeout_sec", amount: func(q Question) float64 {
			n := q.Placement.Limits.TimeoutSec
			if q.builds() {
				n = max(n, q.Placement.Limits.BuildTimeoutSec) // the compiler's time counts, too
			}
			if n > q.SessionTimeout {
				return n
			}
			return 0
		}},
		{name: "source", agents: true, is: func(q Question, value string) bool { return strings.EqualFold(q.Caller.Source, value) }},
	}
}

func ofSandbox(q Question, amount float64) float64 {
	if q.inSession() {
		return 0
	}
	return amount
}

func askedNetwork(q Question) string {
	if q.inSession() || q.Network.NetworkPolicy != belljar.NetworkAllowlist {
		return ""
	}
	rules := q.Network.Egress.List()
	for _, name := range q.Network.Egress.Presets {
		rules = append(rules, "preset:"+name)
	}
	if len(rules) > 0 {
		return strings.Join(rules, " ")
	}
	return "no host"
}

// askedSecrets names the secrets, and for each its stored secret and the host that receives it.
func askedSecrets(q Question) string {
	secrets, repository, _ := q.wishes()
	var list []string
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		var more []string
		if s := secrets[name]; s.From != "" {
			more = append(more, "from "+s.From)
		}
		if s := secrets[name]; s.Brokered() {
			more = append(more, "to "+s.Host)
		}
		if repository != nil && repository.Secret == name {
			more = append(more, "for git")
		}
		if len(more) > 0 {
			name += " (" + strings.Join(more, ", ") + ")"
		}
		list = append(list, name)
	}
	return strings.Join(list, " ")
}

func askedGit(q Question) string {
	_, repository, _ := q.wishes()
	if repository == nil {
		return ""
	}
	what := repository.URL
	if repository.Ref != "" {
		what += " at " + repository.Ref
	}
	if repository.Patch != "" {
		what += fmt.Sprintf(" with a patch of %d bytes", len(repository.Patch))
	}
	return what
}

func askedImage(q Question) string {
	if ref := q.Placement.Image.Ref; !q.inSession() && ref != runtime.HostRef {
		return ref
	}
	return ""
}

// ApprovalRules decide which requests need an approval. The zero value requires none.
type ApprovalRules struct{ rules []approvalRule }

type approvalRule struct {
	subject
	text  string
	op    byte // '>', '=' or 0
	value string
	most  float64
}

// ApprovalRules parses SANDBOX_APPROVAL. The error names the invalid rule, and the valid forms.
func (p Policy) ApprovalRules() (*ApprovalRules, error) {
	a := &ApprovalRules{}
	for _, text := range p.Approval {
		r, wrong := parseApprovalRule(text)
		if wrong != "" {
			return nil, &belljar.Error{
				Code: belljar.CodeInvalidRequest, Message: fmt.Sprintf("SANDBOX_APPROVAL: rule %q %s", text, wrong),
				Details: map[string]any{"field": "SANDBOX_APPROVAL", "provided": text, "supported": approvalForms()},
				Hint:    "rules are " + strings.Join(approvalForms(), ", "),
			}
		}
		a.rules = append(a.rules, r)
	}
	return a, nil
}

func parseApprovalRule(text string) (r approvalRule, wrong string) {
	name := text
	if i := strings.IndexAny(text, ">="); i >= 0 {
		name, r.op, r.value = text[:i], text[i], text[i+1:]
	}
	all := subjects()
	i := slices.IndexFunc(all, func(s subject) bool { return s.name == name })
	if i < 0 {
		return r, "is about nothing that is known"
	}
	r.subject, r.text = all[i], text
	switch {
	case r.op == '>' && r.amount != nil:
		n, err := strconv.ParseFloat(r.value, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
			return r, "needs a number after >"
		}
		r.most = n
	case r.op == '=' && r.is != nil:
		if r.value == "" {
			return r, "needs a value after ="
		}
	case r.op == 0 && r.asked != nil:
	default:
		return r, "has not the form of " + strings.Join(r.forms(), " or ")
	}
	return r, ""
}

func approvalForms() (forms []string) {
	for _, s := range subjects() {
		forms = append(forms, s.forms()...)
	}
	return forms
}

func (s subject) forms() (forms []string) {
	if s.asked != nil {
		forms = append(forms, s.name)
	}
	if s.amount != nil {
		forms = append(forms, s.name+">N")
	}
	if s.is != nil {
		forms = append(forms, s.name+"=VALUE")
	}
	return forms
}

// Reasons returns the rules that a request matches, each with the request's value; none if it needs no approval. For operators only the
// rules about programs that act in their name apply.
func (a *ApprovalRules) Reasons(q Question) (reasons []string) {
	if a == nil {
		return nil
	}
	for _, r := range a.rules {
		if q.Caller.Admin() && !r.agents {
			continue
		}
		switch {
		case r.op == '>':
			if n := r.amount(q); n > r.most {
				reasons = append(reasons, fmt.Sprintf("%s: %v", r.text, n))
			}
		case r.op == '=':
			if r.is(q, r.value) {
				reasons = append(reasons, r.text)
			}
		default:
			if what := r.asked(q); what != "" {
				reasons = append(reasons, r.text+": "+what)
			}
		}
	}
	return reasons
}

// Network refuses a change that lets a session reach more than was approved with it.
func (a *ApprovalRules) Network(caller belljar.Caller, before, asked belljar.NetworkSpec) error {
	gated := a != nil && slices.ContainsFunc(a.rules, func(r approvalRule) bool { return r.name == "network" })
	if !gated || caller.Admin() || asked.NetworkPolicy != belljar.NetworkAllowlist {
		return nil
	}
	if before.NetworkPolicy == belljar.NetworkAllowlist && below(asked.Egress.Hosts, before.Egress.Hosts) &&
		within(asked.Egress.CIDRs, before.Egress.CIDRs) && within(asked.Egress.IPs, before.Egress.IPs) &&
		within(asked.Egress.Presets, before.Egress.Presets) {
		return nil
	}
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: "the session would reach more than before, and a network needs an approval here",
		Details: map[string]any{"field": "egress", "rule": "SANDBOX_APPROVAL"},
		Hint:    "make a session with that network: its request waits for an operator",
	}
}

// below reports whether rules for hosts cover no more names than others do. Addresses cannot be compared like this: a network within a
// wider one may open a special range that the wider one does not.
func below(list, of []string) bool {
	return !slices.ContainsFunc(list, func(host string) bool {
		return !slices.ContainsFunc(of, func(rule string) bool {
			name, wildcard := strings.CutPrefix(rule, "*.")
			return rule == host || rule == "*" || wildcard && strings.HasSuffix(host, "."+name)
		})
	})
}

func within(list, of []string) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !slices.Contains(of, s) })
}

// Fingerprint identifies a request, for the approval that covers only it. It is stable when the request is stored and read. It excludes
// the values of secrets: they are encrypted for each record, and must not be guessable from it.
func Fingerprint(spec any) (string, error) {
	raw, err := json.Marshal(spec)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	secrets, _ := fields["secrets"].(map[string]any)
	for _, s := range secrets {
		if s, is := s.(map[string]any); is {
			delete(s, "value")
		}
	}
	if err == nil {
		raw, err = json.Marshal(fields) // in a fixed order
	}
	if err != nil {
		return "", &belljar.Error{Code: belljar.CodeInvalidRequest, Message: "the request cannot be written as JSON", Err: err}
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// Approval returns the approval that a request needs; nil if it needs none.
func (r *Rules) Approval(q Question) (*belljar.Approval, error) {
	if r.Approvals == nil || len(r.Approvals.rules) == 0 {
		return nil, nil
	}
	a := &belljar.Approval{
		Kind: "run", State: belljar.ApprovalPending, UserID: q.Caller.ID, Source: q.Caller.Source, BaseImage: q.Placement.Image.Ref,
		CPU: q.Placement.Limits.CPU, MemoryMB: q.Placement.MemoryMB(), TimeoutSec: q.Placement.Limits.TimeoutSec,
	}
	var trust belljar.TrustLevel
	var asked belljar.NetworkSpec
	of := func() (string, error) { return Fingerprint(q.Run) }
	if q.Run != nil {
		trust, asked, a.SessionID = q.Run.TrustLevel, belljar.NetworkSpec{NetworkPolicy: q.Run.NetworkPolicy, Egress: q.Run.Egress}, q.Run.SessionID
	} else {
		a.Kind, of = "session", func() (string, error) { return Fingerprint(q.Session) }
		trust, asked = q.Session.TrustLevel, belljar.NetworkSpec{NetworkPolicy: q.Session.NetworkPolicy, Egress: q.Session.Egress}
	}
	var err error
	if !q.inSession() {
		if q.Network, _, err = r.Egress.Network(q.Caller, trust, asked); err != nil {
			return nil, err
		}
		a.Network = q.Network
	}
	q.imageNames = r.namesOf(context.Background(), askedImage(q))
	if a.Reasons = r.Approvals.Reasons(q); len(a.Reasons) == 0 {
		return nil, nil
	}
	a.Fingerprint, err = of()
	return a, err
}

// Unasked refuses to execute programs of a placement's image outside a request if a request with that image would need an approval.
func (r *Rules) Unasked(caller belljar.Caller, p *placement.Placement) error {
	if p.Image.Ref == runtime.HostRef {
		return nil
	}
	a, err := r.Approval(Question{Caller: caller, Run: &belljar.RunSpec{BaseImage: p.Image.Ref, NetworkPolicy: belljar.NetworkDenyAll}, Placement: p})
	if a == nil || err != nil {
		return err
	}
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("tools of image %s would be executed, which needs an approval here: %s", p.Image.Ref, strings.Join(a.Reasons, ", ")),
		Details: map[string]any{"field": "base_image", "rule": "SANDBOX_APPROVAL"},
		Hint:    "a run or session with the image and its presets waits for an operator, and then says what they stand for",
	}
}
