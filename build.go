package belljar

// StepBuild marks the frames of a log about a program's build.
const StepBuild = "build"

// The events of a build. Their data has step build; that of the end has what came of it, as [Build] does.
const (
	EventBuildStart = "build_start"
	EventBuildEnd   = "build_end"
)

// MaxBuildOutput is how much of what a compiler prints is kept, in bytes: its beginning, where the first error is.
const MaxBuildOutput = 64 << 10

// Build is how the program of a run was compiled before it ran, in the run's sandbox. Nothing of it counts as the run's
// own: time, output and usage of the run are those of the program alone.
type Build struct {
	Argv        []string `json:"argv"`      // the compiler and what it was given
	ExitCode    *int     `json:"exit_code"` // 128+n if signalled, null while it runs
	DurationSec float64  `json:"duration_sec"`
	// Usage has CPU and wall time, and the peak memory of the compiler's largest process.
	Usage *ResourceUsage `json:"usage,omitempty"`
	// Output is what the compiler printed, stdout and stderr as they came; its first [MaxBuildOutput]. Lists leave it out.
	Output          string `json:"output"`
	OutputEncoding  string `json:"output_encoding"` // utf8 | base64
	OutputTruncated bool   `json:"output_truncated,omitempty"`
	Cached          bool   `json:"cached,omitempty"` // an earlier run had it built; the rest, without usage and duration, is of that build
}
