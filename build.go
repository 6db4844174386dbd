package belljar

// StepBuild marks the frames of a log about a program's build.
const StepBuild = "build"

// The events of a build. Their data has step build. The end event also has the fields of [Build].
const (
	EventBuildStart = "build_start"
	EventBuildEnd   = "build_end"
)

// MaxBuildOutput is how many bytes of the compiler's output are kept: its beginning, where the first error is.
const MaxBuildOutput = 64 << 10

// Build describes how the program of a run was compiled before it ran, in the run's sandbox. The run's time, output and
// usage are those of the program alone, without the build.
type Build struct {
	Argv        []string `json:"argv"`      // the compiler and its arguments
	ExitCode    *int     `json:"exit_code"` // 128+n if signalled, null while it runs
	DurationSec float64  `json:"duration_sec"`
	// Usage has the CPU time, the wall time, and the peak memory of the compiler's largest process.
	Usage *ResourceUsage `json:"usage,omitempty"`
	// Output is the first [MaxBuildOutput] bytes that the compiler printed, stdout and stderr interleaved. Lists leave it out.
	Output          string `json:"output"`
	OutputEncoding  string `json:"output_encoding"` // utf8 | base64
	OutputTruncated bool   `json:"output_truncated,omitempty"`
	Cached          bool   `json:"cached,omitempty"` // an earlier run built it; all fields except usage and duration are from that build
}
