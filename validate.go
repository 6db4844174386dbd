package belljar

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a request's parts.
const (
	maxArgs         = 4096
	maxArgBytes     = 1 << 20
	maxEnv          = 1024
	maxEnvBytes     = 1 << 20
	MaxInlineBytes  = 1 << 20 // docs/compatibility.md#runs
	maxStdinBytes   = 1 << 20 // of the stdin that comes with the request
	maxPathBytes    = 1024    // of a path in the workspace
	maxNameBytes    = 255     // of each path element: the limit of file systems
	maxPatterns     = 256
	maxPatternBytes = 1024
	maxLabels       = 64
	maxLabelBytes   = 1024     // of a name or a value
	maxLabelsBytes  = 16 << 10 // of all names and values
)

// SpecVersion is the newest version of the specification that this package supports.
const SpecVersion = "1.1"

// CheckVersion refuses an unsupported version of the specification. The error is [CodeInvalidSpecVersion].
func CheckVersion(v string, supported []string) error {
	if slices.Contains(supported, v) {
		return nil
	}
	quoted := strconv.Quote(v)
	e := &Error{
		Code: CodeInvalidSpecVersion, Message: "Unsupported spec_version '" + quoted[1:len(quoted)-1] + "'",
		Details: map[string]any{"supported": supported, "provided": v},
	}
	if v == "" {
		e.Message, e.Details["field"] = "spec_version is required", "spec_version"
	}
	return e
}

// Validate checks the spec as far as that is possible without a host or a policy. The error is [CodeInvalidRequest] and names the field.
func (s *RunSpec) Validate() error {
	return firstError(s.checkPlace, s.checkVersion, s.checkProgram, s.checkCwd, s.checkEnv, s.checkFiles, s.checkPatterns,
		func() error { return checkLabels(s.Labels) },
		func() error { return checkSecrets(s.Secrets) },
		func() error { return checkBrokered(s.Secrets, s.Env, s.NetworkPolicy, s.Git) },
		func() error { return checkIsolation(s.Isolation, s.TrustLevel) },
		s.checkGit, s.checkSnapshot, s.checkTemplate, s.checkWorkspace, s.Packages.Validate, NetworkSpec{s.NetworkPolicy, s.Egress}.Validate)
}

// Validate checks the spec as far as that is possible without a host or a policy. The error is [CodeInvalidRequest] and names the field.
func (s *SessionSpec) Validate() error {
	return firstError(s.Scope.Validate,
		func() error { return checkEnv(s.Env) },
		func() error { return checkLabels(s.Labels) },
		func() error { return checkSecrets(s.Secrets) },
		func() error { return checkBrokered(s.Secrets, s.Env, s.NetworkPolicy, s.Git) },
		func() error { return checkIsolation(s.Isolation, s.TrustLevel) },
		s.Git.Validate, func() error { return s.Git.checkSecret(s.Secrets) }, s.Packages.Validate, s.checkSnapshot,
		func() error { return checkTemplate(s.Template, s.Snapshot, s.Git) },
		s.checkWorkspace, NetworkSpec{s.NetworkPolicy, s.Egress}.Validate)
}

// firstError returns the first error of checks.
func firstError(checks ...func() error) error {
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// checkSnapshot checks the snapshot that provides the workspace's initial files.
func (s *SessionSpec) checkSnapshot() error {
	if s.Snapshot != "" && s.Git != nil {
		return invalid("snapshot", "snapshot and git exclude each other: each is what the workspace begins with")
	}
	return checkSnapshot(s.Snapshot)
}

// checkSnapshot checks the id of a snapshot, which may be "".
func checkSnapshot(id string) error {
	if id != "" && !ValidID(id) {
		return invalid("snapshot", "snapshot %.80q is no id of a snapshot", id)
	}
	return nil
}

// checkSnapshot checks the snapshot that a run reads.
func (s *RunSpec) checkSnapshot() error {
	if s.Snapshot != "" && s.SessionID != "" {
		e := invalid("snapshot", "snapshot cannot be set for a run in a session: the session's sandbox is made already")
		e.Hint = "make the session with snapshot, which its workspace then begins with; or make a run without a session"
		return e
	}
	return checkSnapshot(s.Snapshot)
}

// checkGit checks the repository, which excludes a session.
func (s *RunSpec) checkGit() error {
	if s.Git != nil && s.SessionID != "" {
		e := invalid("git", "git cannot be set for a run in a session: the session has the workspace")
		e.Hint = "make the session with git, or upload the files into it"
		return e
	}
	if s.Git != nil && s.BuildCache {
		e := invalid("build_cache", "build_cache and git exclude each other: the repository brings files that the request does not name")
		e.Hint = "leave build_cache out"
		return e
	}
	if err := s.Git.Validate(); err != nil {
		return err
	}
	return s.Git.checkSecret(s.Secrets)
}

// checkPlace checks that the spec names a session or an image for the command.
func (s *RunSpec) checkPlace() error {
	what := "one of session_id, base_image and template is required"
	switch {
	case s.SessionID != "" && s.BaseImage != "":
		what = "session_id and base_image exclude each other: a session has its image"
	case s.SessionID != "" || s.BaseImage != "" || s.Template != "":
		return nil
	}
	e := invalid("base_image", "%s", what)
	e.Details["fields"] = []string{"session_id", "base_image", "template"}
	return e
}

// checkVersion refuses features that the request's version of the specification does not have yet.
func (s *RunSpec) checkVersion() error {
	if s.SpecVersion != "1.0" {
		return nil
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"interactive", s.Interactive},
		{"stdin_max_bytes", s.StdinMaxBytes != 0},
		{"stdin_max_frame_bytes", s.StdinMaxFrameBytes != 0},
		{"stdin_bps", s.StdinBytesPerSec != 0},
		{"stdin_idle_timeout_sec", s.StdinIdleTimeoutSec != 0},
		{"resume_from_seq", s.ResumeFromSeq != 0},
	} {
		if f.set {
			e := invalid(f.name, "%s needs spec_version 1.1", f.name)
			e.Hint = "send spec_version 1.1"
			return e
		}
	}
	return nil
}

// checkProgram checks the command or code, and its input.
func (s *RunSpec) checkProgram() error {
	if s.Warm != "" && s.Warm != WarmAuto && s.Warm != WarmOff {
		e := invalid("warm", "warm is auto or off, not %.80q", s.Warm)
		e.Details["provided"], e.Details["supported"] = s.Warm, []string{WarmAuto, WarmOff}
		e.Hint = "leave it out for auto"
		return e
	}
	if len(s.Stdin) > maxStdinBytes {
		return invalid("stdin", "stdin is limited to %d bytes, got %d", maxStdinBytes, len(s.Stdin))
	}
	if s.Stdin != "" && s.Interactive {
		return invalid("stdin", "stdin does not go with interactive, whose input comes later")
	}
	if s.BuildCache && (s.Language == "" || s.SessionID != "") {
		e := invalid("build_cache", "build_cache is for a program in a language, in a run without a session")
		e.Hint = "leave it out where files can be there that the request does not name"
		return e
	}
	if s.Replay && s.Context == "" {
		return invalid("replay", "replay needs context, whose code is executed again")
	}
	switch {
	case s.Context != "":
		return s.checkContext()
	case s.Shell != nil:
		return s.checkShell()
	case s.Code != "" || s.Language != "" && len(s.Command) == 0:
		return s.checkCode()
	case s.Language != "":
		if _, err := s.language(); err != nil {
			return err
		}
		if clean, err := CleanPath(s.Command[0]); err != nil || clean == "." {
			return invalid("command[0]", "command[0] is not a file of the workspace, which language requires")
		}
	case len(s.Command) == 0:
		return invalid("command", "command must not be empty, unless code and language stand in for it")
	case s.Command[0] == "":
		return invalid("command", "command must not be empty")
	}
	return checkCommand(s.Command)
}

func checkCommand(command []string) error {
	total := 0
	for i, arg := range command {
		if strings.ContainsRune(arg, 0) {
			return invalid(fmt.Sprintf("command[%d]", i), "command[%d] contains a NUL byte", i)
		}
		if !utf8.ValidString(arg) {
			return invalid(fmt.Sprintf("command[%d]", i), "command[%d] is not valid UTF-8", i)
		}
		total += len(arg) + 1
	}
	if len(command) > maxArgs || total > maxArgBytes {
		return invalid("command", "command is limited to %d arguments and %d bytes", maxArgs, maxArgBytes)
	}
	return nil
}

// checkShell checks a command for a session's shell. The shell already has a directory and an environment.
func (s *RunSpec) checkShell() error {
	cmd := s.Shell.Cmd
	for _, other := range []struct {
		name  string
		given bool
	}{
		{"command", len(s.Command) > 0}, {"code", s.Code != ""}, {"language", s.Language != ""}, {"cwd", s.Cwd != ""}, {"env", len(s.Env) > 0},
	} {
		if other.given {
			e := invalid(other.name, "shell and %s exclude each other", other.name)
			e.Hint = "say it in shell.cmd: cd, export and the like last from one command to the next"
			return e
		}
	}
	if s.CPUTimeSec != 0 {
		e := invalid("cpu_time_sec", "cpu_time_sec does not go with shell: background jobs of earlier commands use the same clock")
		e.Hint = "run the command without the shell, or bound its time with timeout_sec"
		return e
	}
	switch {
	case s.SessionID == "":
		return invalid("shell", "shell needs session_id: it is a session's")
	case strings.TrimSpace(cmd) == "":
		return invalid("shell.cmd", "shell.cmd must not be empty")
	case len(cmd) > maxArgBytes:
		e := invalid("shell.cmd", "shell.cmd is limited to %d bytes, got %d", maxArgBytes, len(cmd))
		e.Details["provided"], e.Details["maximum"] = len(cmd), maxArgBytes
		e.Hint = "write a longer script to a file and run that"
		return e
	case strings.ContainsRune(cmd, 0):
		return invalid("shell.cmd", "shell.cmd contains a NUL byte")
	case !utf8.ValidString(cmd):
		return invalid("shell.cmd", "shell.cmd is not valid UTF-8")
	}
	return nil
}

// checkCode checks a program that is sent as its text.
func (s *RunSpec) checkCode() error {
	switch {
	case len(s.Command) > 0:
		return invalid("code", "command and code exclude each other")
	case s.Code == "":
		return invalid("code", "language needs code, or a command that begins with a file")
	case s.Language == "":
		return invalid("language", "code needs language")
	case len(s.Code) > MaxInlineBytes:
		return invalid("code", "code is limited to %d bytes, got %d", MaxInlineBytes, len(s.Code))
	}
	l, err := s.language()
	if err != nil {
		return err
	}
	file := l.FileOf(s.Code)
	for i, f := range s.Files {
		if clean, err := CleanPath(f.Path); err == nil && (clean == file || strings.HasPrefix(clean, file+"/")) {
			return invalid(fmt.Sprintf("files[%d].path", i), "files[%d].path %q is where code goes, to %s", i, f.Path, file)
		}
	}
	return nil
}

// language returns the program's language.
func (s *RunSpec) language() (Language, error) {
	l, known := LanguageOf(s.Language)
	if known {
		return l, nil
	}
	e := invalid("language", "language %q is not known", s.Language)
	var names []string
	for _, l := range Languages() {
		names = append(names, l.Aliases[0])
	}
	e.Details["provided"], e.Details["supported"] = s.Language, names
	e.Hint = "one of " + strings.Join(names, ", ")
	return Language{}, e
}

// checkCwd checks the path of the command's working directory in the workspace. The start of the command reports whether it exists.
func (s *RunSpec) checkCwd() error {
	if s.Cwd == "" {
		return nil
	}
	clean, err := CleanPath(s.Cwd)
	if err == nil {
		err = CheckPlace(clean)
	}
	if err != nil {
		e := invalid("cwd", "cwd %.200q: %v", s.Cwd, err)
		e.Hint = "a command starts in " + WorkspaceDir + " or a directory below it"
		return e
	}
	return nil
}

// checkEnv checks the environment.
func (s *RunSpec) checkEnv() error { return checkEnv(s.Env) }

// checkEnv checks the environment in a request. The error is [CodeInvalidRequest].
func checkEnv(env map[string]string) error {
	if len(env) > maxEnv {
		return invalid("env", "env is limited to %d variables", maxEnv)
	}
	total := 0
	for name, value := range env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return invalid("env", "env variable %q is not a valid name=value", name)
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return invalid("env", "env variable %q is not valid UTF-8", name)
		}
		total += len(name) + len(value) + 2
	}
	if total > maxEnvBytes {
		return invalid("env", "env is limited to %d bytes together, got %d", maxEnvBytes, total)
	}
	return nil
}

// checkLabels checks the labels in a request. The error is [CodeInvalidRequest].
func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalid("labels", "labels are limited to %d, got %d", maxLabels, len(labels))
	}
	total := 0
	for name, value := range labels {
		total += len(name) + len(value)
		switch {
		case name == "":
			return invalid("labels", "a label has no name")
		case len(name) > maxLabelBytes || len(value) > maxLabelBytes:
			return invalid("labels", "label %.40q is longer than %d bytes", name, maxLabelBytes)
		case !utf8.ValidString(name) || !utf8.ValidString(value):
			return invalid("labels", "label %.40q is not valid UTF-8", name)
		case strings.ContainsRune(name, 0) || strings.ContainsRune(value, 0):
			return invalid("labels", "label %.40q contains a NUL byte", name)
		}
	}
	if total > maxLabelsBytes {
		return invalid("labels", "labels are limited to %d bytes together, got %d", maxLabelsBytes, total)
	}
	return nil
}

// checkFiles checks the inline files, including the code.
func (s *RunSpec) checkFiles() error {
	inline, seen := len(s.Code), make(map[string]int, len(s.Files))
	for i, f := range s.Files {
		clean, err := CleanPath(f.Path)
		if err == nil && clean == "." {
			err = errors.New("path is the workspace itself")
		}
		if _, twice := seen[clean]; err == nil && twice {
			err = errors.New("path is given twice")
		}
		if err == nil {
			err = CheckPlace(clean)
		}
		seen[clean] = i
		if err != nil {
			return invalid(fmt.Sprintf("files[%d].path", i), "files[%d].path %q: %v", i, f.Path, err)
		}
		inline += len(f.Content)
	}
	if inline > MaxInlineBytes {
		return invalid("files", "inline files are limited to %d bytes together, got %d", MaxInlineBytes, inline)
	}
	// Replace the slash by NUL, which no path contains, so that the content of a folder sorts directly after the folder's name.
	var paths []string
	for clean := range seen {
		paths = append(paths, strings.ReplaceAll(clean, "/", "\x00"))
	}
	slices.Sort(paths)
	for n := 1; n < len(paths); n++ {
		if file := paths[n-1]; strings.HasPrefix(paths[n], file+"\x00") {
			i := seen[strings.ReplaceAll(paths[n], "\x00", "/")]
			return invalid(fmt.Sprintf("files[%d].path", i), "files[%d].path %q: %q is a file of the same request", i, s.Files[i].Path,
				strings.ReplaceAll(file, "\x00", "/"))
		}
	}
	return nil
}

func (s *RunSpec) checkPatterns() error {
	if len(s.CapturePatterns) > maxPatterns {
		return invalid("capture_patterns", "capture_patterns is limited to %d patterns", maxPatterns)
	}
	for i, p := range s.CapturePatterns {
		if err := checkPattern(p); err != nil {
			return invalid(fmt.Sprintf("capture_patterns[%d]", i), "capture pattern %q: %v", p, err)
		}
	}
	return nil
}

// WorkspaceDir is the workspace's path inside every sandbox.
const WorkspaceDir = "/workspace"

// CleanPath normalises a path inside the workspace: "x", "./x" and "/workspace/x" are the same file. It returns the
// relative form, "." for the workspace itself, or an error for an empty path, a NUL byte, bytes that are not UTF-8, any ".." and an absolute
// path elsewhere.
func CleanPath(p string) (string, error) {
	if p == "" {
		return "", fmt.Errorf("path is empty")
	}
	if strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("path contains a NUL byte")
	}
	if !utf8.ValidString(p) {
		return "", fmt.Errorf("path is not valid UTF-8")
	}
	for _, part := range strings.Split(p, "/") {
		if part == ".." {
			return "", errors.New("path must not contain .. segments")
		}
	}
	clean := path.Clean(p)
	if path.IsAbs(clean) {
		if clean == WorkspaceDir {
			return ".", nil
		}
		rest, ok := strings.CutPrefix(clean, WorkspaceDir+"/")
		if !ok {
			return "", fmt.Errorf("path is outside %s", WorkspaceDir)
		}
		clean = rest
	}
	return clean, nil
}

// CheckPlace checks that a clean path is short enough for a workspace. The error is [CodeInvalidRequest], with the bounds in its details.
func CheckPlace(clean string) error {
	if len(clean) > maxPathBytes {
		return placeError("path is longer than %d bytes", maxPathBytes)
	}
	for part := range strings.SplitSeq(clean, "/") {
		if len(part) > maxNameBytes {
			return placeError("path has a part longer than %d bytes", maxNameBytes)
		}
	}
	return nil
}

func placeError(format string, most int) *Error {
	e := invalid("path", format, most)
	e.Details["maximum"], e.Details["maximum_name"] = most, maxNameBytes
	return e
}

func checkPattern(p string) error {
	if len(p) > maxPatternBytes {
		return fmt.Errorf("longer than %d bytes", maxPatternBytes)
	}
	_, err := CleanPath(p)
	return err
}

func invalid(field, format string, args ...any) *Error {
	return &Error{
		Code:    CodeInvalidRequest,
		Message: fmt.Sprintf(format, args...),
		Details: map[string]any{"field": field},
	}
}
