package install

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/egress"
	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/service/admission"
	"github.com/belljar/belljar/internal/service/box"
	"github.com/belljar/belljar/internal/service/placement"
)

// The origins of a preset's indexes.
const (
	fromMirror = "mirror"
	fromImage  = "image"
)

// toolTime bounds the queries of an image's tools for their configuration.
const toolTime = time.Minute

// maxIndexes is how many indexes a preset may have: the server queries each, and a run's record lists them.
const maxIndexes = 32

// presetField is the field of errors about presets.
const presetField = "egress.presets"

// answer is the expansion of a preset, and the output of its tool.
type answer struct {
	belljar.NetworkPreset
	Printed string `json:"printed,omitempty"`
	urls    []*url.URL
}

// Presets resolves the presets of a request, and permits them in the placement's network. The image must be local. The error is a
// [belljar.Error], or the cause of ctx.
func (i *Installer) Presets(ctx context.Context, o Order) ([]belljar.NetworkPreset, error) {
	if len(o.Egress.Presets) == 0 {
		return nil, nil
	}
	answers, errs := i.resolve(ctx, o)
	var list []belljar.NetworkPreset
	var files []belljar.InlineFile
	for n, a := range answers {
		if errs[n] != nil {
			return nil, errs[n]
		}
		list = append(list, a.NetworkPreset)
		_, own := settings(a.NetworkPreset, a.Printed)
		for _, name := range slices.Sorted(maps.Keys(own)) {
			files = append(files, belljar.InlineFile{Path: name, Content: []byte(own[name])})
		}
	}
	policy, err := i.opts.Egress.WithPresets(o.Placement.Egress, list)
	if err != nil {
		return nil, err
	}
	o.Placement.Egress, o.Placement.Env, o.Placement.Files = policy, Environment(list), files
	return list, nil
}

// Show returns the expansion of the order's enabled presets, or why they cannot be used.
func (i *Installer) Show(ctx context.Context, o Order) ([]belljar.NetworkPreset, error) {
	answers, errs := i.resolve(ctx, o)
	var list []belljar.NetworkPreset
	for n, a := range answers {
		var e *belljar.Error
		switch {
		case errs[n] == nil:
		case errors.As(errs[n], &e):
			a.Reason, a.Hint = e.Message, e.Hint
		default:
			return nil, errs[n]
		}
		list = append(list, a.NetworkPreset)
	}
	return list, nil
}

// resolve returns the answer, or an error, for each preset of an order.
func (i *Installer) resolve(ctx context.Context, o Order) (answers []answer, errs []error) {
	answers, errs = make([]answer, len(o.Egress.Presets)), make([]error, len(o.Egress.Presets))
	var open []int
	for n, name := range o.Egress.Presets {
		a, p := &answers[n], presetOf(name)
		if kept, ok := i.keptAnswer(i.presetKey(p, o)); ok {
			*a = kept
		} else {
			a.Name, a.Enabled = name, true
			for _, u := range i.opts.Mirrors[name] {
				a.urls, a.Source = append(a.urls, u), fromMirror
			}
			if p.ask != nil && (a.Source == "" || p.always) {
				if known, ok := o.known(a); ok {
					*a = answer{NetworkPreset: known}
				} else {
					open = append(open, n)
				}
			}
		}
	}
	if len(open) > 0 {
		i.askTools(ctx, o, open, answers, errs)
	}
	for n := range answers {
		if a := &answers[n]; errs[n] == nil {
			errs[n] = i.locate(ctx, o, a)
		}
	}
	return answers, errs
}

// known returns the expansion that the order's sandbox already has, unless the operator has set another index since.
func (o Order) known(a *answer) (belljar.NetworkPreset, bool) {
	for _, p := range o.Known {
		if p.Name == a.Name && p.LearntAt != nil && p.Source == cmp.Or(a.Source, fromImage) {
			same := func(shown string, u *url.URL) bool { return shown == u.String() }
			return p, a.Source == "" || slices.EqualFunc(p.Indexes, a.urls, same)
		}
	}
	return belljar.NetworkPreset{}, false
}

// askTools queries tools of the image for their configuration, in one side sandbox without a network.
func (i *Installer) askTools(ctx context.Context, o Order, open []int, answers []answer, errs []error) {
	if o.Made == nil { // the order's sandbox already exists, and there is no reservation for another
		for _, n := range open {
			errs[n] = presetError(answers[n].Name, belljar.CodeConflict, "its hosts in this image are not known yet",
				"make a session with it, or look at it first: belljar network presets --image IMAGE")
		}
		return
	}
	place := *o.Placement
	place.Broker, place.Egress, place.Image.Layers, place.Exec, place.CompilerMB, place.InstallMB = nil, nil, nil, false, 0, 0
	place.InMemory(place.Limits.WorkspaceMB)
	place.Limits = admission.AskLimits(place.Limits)
	_, err := i.opts.Boxes.Side(ctx, box.SideOrder{Caller: o.Caller, Placement: &place, Made: o.Made, Time: toolTime}, func(ctx context.Context, b *box.Box) error {
		for _, n := range open {
			a, p := &answers[n], presetOf(answers[n].Name)
			s := &side{Installer: i, Box: b, tool: &tool{name: a.Name, field: presetField}, ask: o, place: &place}
			printed, exit, err := s.exec(ctx, p.ask, "", false)
			var own *belljar.Error
			switch {
			case errors.As(err, &own):
				errs[n] = own
			case err != nil:
				return err
			case exit.Code == noTool:
				errs[n] = s.missing()
			case exit.Code == 0 && exit.Signal == 0:
				a.Printed = string(printed)
			case p.always:
				errs[n] = presetError(a.Name, belljar.CodeImageInvalid, "its tool does not say what it is set to", "take another image")
			}
		}
		return nil
	})
	for _, n := range open {
		switch a := &answers[n]; {
		case err != nil && errs[n] == nil:
			errs[n] = askFault(ctx, a.Name, err)
		case errs[n] == nil && a.Source == "":
			a.Source = fromImage
			for _, text := range presetOf(a.Name).read(a.Printed) {
				if u, err := parseIndex(text); err == nil {
					a.urls = append(a.urls, u)
				}
			}
		}
		if !presetOf(answers[n].Name).always {
			answers[n].Printed = "" // it may contain secrets of the owner
		}
	}
}

// askFault converts an error of a side sandbox for the caller.
func askFault(ctx context.Context, name string, err error) error {
	var own *belljar.Error
	var step *runtime.StepError
	switch {
	case errors.As(err, &own), errors.As(err, &step):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, box.ErrSideTime):
		return presetError(name, belljar.CodeTimeout, fmt.Sprintf("its tool did not answer within %v", toolTime), "an operator sets an index in SANDBOX_PACKAGE_MIRRORS")
	}
	return &belljar.Error{Code: belljar.CodeInternal, Message: "preset " + name + ": its tool cannot be asked", Err: err, Details: map[string]any{"field": presetField}}
}

// locate finds the hosts of a preset whose indexes are known, and caches the answer. It checks a cached answer again: whether its indexes are
// permitted depends on the caller.
func (i *Installer) locate(ctx context.Context, o Order, a *answer) error {
	kept := a.LearntAt != nil
	if kept {
		for _, text := range a.Indexes {
			if u, err := url.Parse(text); err == nil {
				a.urls = append(a.urls, u)
			}
		}
	}
	if len(a.urls) == 0 {
		return presetError(a.Name, belljar.CodePolicyDenied, "the image does not say from where it gets packages", "an operator sets an index in SANDBOX_PACKAGE_MIRRORS: "+a.Name+"=https://packages.example.com/")
	}
	if a.Source == fromImage && len(a.urls) > maxIndexes {
		return presetError(a.Name, belljar.CodeImageInvalid, fmt.Sprintf("its tool is set to %d indexes, and at most %d are used", len(a.urls), maxIndexes), "take another image")
	}
	hosts := map[string]bool{}
	for _, u := range a.urls {
		hosts[strings.ToLower(u.Hostname())] = true
	}
	policy, err := i.opts.Egress.Index(o.Caller, o.Trust, slices.Sorted(maps.Keys(hosts)), o.Egress)
	if err != nil {
		return err
	}
	for _, u := range a.urls {
		if a.Source == fromImage && o.Placement.Image.Ref != runtime.HostRef && !i.opts.Egress.Covers(o.Caller, o.Trust, u.Hostname(), port(u)) {
			return notCovered(&tool{name: a.Name, field: presetField}, u)
		}
		if _, reason := policy.Decide(u.Hostname(), port(u)); reason != "" {
			x := &index{tool: &tool{name: a.Name, field: presetField}, url: u}
			return x.fault(&egress.DeniedError{Host: u.Hostname(), Port: port(u), Reason: reason}, "", 0)
		}
	}
	p := presetOf(a.Name)
	for _, u := range a.urls {
		if !kept && p.index != nil {
			if err := i.files(ctx, p, u, policy, hosts); err != nil {
				return err
			}
		}
	}
	for _, host := range a.Hosts { // of a cached answer
		hosts[host] = true
	}
	if a.Source == fromImage {
		x := &index{tool: &tool{name: a.Name, field: presetField}, url: a.urls[0]}
		if err := i.leads(x, o.Placement.Image.Ref, o, hosts, 0); err != nil {
			return err
		}
	}
	if kept {
		return nil
	}
	for _, u := range a.urls {
		shown := *u
		shown.User = nil
		a.Indexes = append(a.Indexes, shown.String())
	}
	a.Hosts, a.LearntAt = slices.Sorted(maps.Keys(hosts)), new(i.opts.Now().UTC().Truncate(time.Second))
	i.keepAnswer(i.presetKey(p, o), *a)
	return nil
}

// leads refuses hosts to which the index of an image refers for its n-th project, unless the server's rules permit them. An index must not
// decide what a sandbox may reach, and neither must its image: its content may be untrusted, even on a permitted host.
func (i *Installer) leads(x *index, image string, o Order, hosts map[string]bool, n int) error {
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		if image != runtime.HostRef && !i.opts.Egress.Covers(o.Caller, o.Trust, host, port(x.url)) {
			return x.fault(&egress.DeniedError{Host: host, Port: port(x.url), Reason: egress.NoMatch}, "", n)
		}
	}
	return nil
}

// files queries an index for the hosts of its files. An index without a project to query is assumed to store them itself.
func (i *Installer) files(ctx context.Context, p *preset, u *url.URL, policy *egress.Policy, hosts map[string]bool) error {
	with := i.opts.Boxes.Egress
	roots, err := with.Roots()
	if err != nil {
		return err
	}
	t := *p.index
	t.field = presetField
	x := open(&t, u, roots, egress.NewGate(egress.Options{Policy: *policy, Resolver: with.Resolver, Dial: with.Dial}))
	defer x.close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	found, err := x.project(ctx, p.probe)
	if errors.Is(err, errMissing) && p.first != nil {
		first := ""
		_ = x.get(ctx, u, func(list page) error {
			first = p.first(list)
			return nil
		})
		if first != "" {
			found, err = x.project(ctx, first)
		}
	}
	switch {
	case errors.Is(err, errMissing):
		return nil
	case err != nil:
		return x.fault(err, p.probe, 0)
	}
	maps.Copy(hosts, found.hosts)
	return nil
}

func presetError(name string, code belljar.Code, message, hint string) error {
	return &belljar.Error{Code: code, Message: "preset " + name + ": " + message, Hint: hint, Details: map[string]any{"field": presetField}}
}

// notCovered refuses an image's index that the server's rules do not permit.
func notCovered(t *tool, u *url.URL) error {
	return &belljar.Error{
		Code: belljar.CodePolicyDenied, Message: fmt.Sprintf("%s: the image takes packages from %s, which this server does not allow", t.name, u.Hostname()),
		Details: map[string]any{"field": t.about(), "rule": "SANDBOX_EGRESS_ALLOW"},
		Hint:    "an operator lists the host in SANDBOX_EGRESS_ALLOW, or sets an index for all images in SANDBOX_PACKAGE_MIRRORS",
	}
}

// presetKey is the cache key of an answer: all its inputs; "" for an answer that is not cached.
func (i *Installer) presetKey(p *preset, o Order) string {
	image := o.Placement.Image
	image.Layers = nil // the tool is queried without them
	identity := image.Digest
	if image.Ref == runtime.HostRef && len(p.programs) > 0 {
		identity = placement.HostProgram((&placement.Placement{Image: image}).Environment(""), p.programs...)
	}
	var mirrors []string
	for _, u := range i.opts.Mirrors[p.name] {
		mirrors = append(mirrors, u.String())
	}
	if len(mirrors) > 0 && !p.always {
		identity = fromMirror // independent of the image
	}
	if identity == "" {
		return ""
	}
	raw, _ := json.Marshal([]any{p.name, identity, mirrors})
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// answersDir is the folder of cached answers on the shelf.
const answersDir = "presets"

// keptAnswer returns a cached answer that has not expired.
func (i *Installer) keptAnswer(key string) (a answer, ok bool) {
	if key == "" || i.opts.Shelf == nil {
		return a, false
	}
	name := filepath.Join(i.opts.Shelf.Dir, answersDir, key+".json")
	text, err := os.ReadFile(name)
	if err != nil || json.Unmarshal(text, &a) != nil || a.LearntAt == nil {
		return answer{}, false
	}
	if i.opts.Now().Sub(*a.LearntAt) >= i.opts.TTL {
		_ = os.Remove(name)
		return answer{}, false
	}
	return a, true
}

// keepAnswer caches an answer. If that fails, the preset is resolved again next time.
func (i *Installer) keepAnswer(key string, a answer) {
	if key == "" || i.opts.Shelf == nil {
		return
	}
	dir := filepath.Join(i.opts.Shelf.Dir, answersDir)
	text, err := json.Marshal(a)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	i.sweepAnswers(dir)
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(dir, "new-*")
	}
	if err == nil {
		_, err = f.Write(text)
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), filepath.Join(dir, key+".json"))
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		i.opts.Log.Warn("cannot store the hosts of a preset", "preset", a.Name, "err", err)
	}
}

// sweepAnswers removes expired answers, and unfinished files of a killed process.
func (i *Installer) sweepAnswers(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) >= i.opts.TTL {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next sweep retries
		}
	}
}
