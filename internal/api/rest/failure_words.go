package rest

// failureWords are the descriptions of the properties of a run's failure, as [words].
func failureWords() map[string]string {
	return map[string]string{
		"Run.failure":         "What the output of a failed run says about the reason; absent in lists, and if it says nothing",
		"RunFailure.language": "python, node, go, java, c, rust, typescript, ruby or shell",
		"RunFailure.type":     "The exception's type, panic, or error for a compiler's message", "RunFailure.message": "Its message, at most 1 KiB",
		"RunFailure.frames": "The stack from the failure outwards, at most 20 frames", "FailureFrame.file": "The file, below the workspace as far as that is known",
		"FailureFrame.line": "From 1", "FailureFrame.column": "From 1, in the units of the language's traces", "FailureFrame.function": "The function",
		"FailureFrame.skipped": "Why this is no place of the program's own: runtime, package, inline or elsewhere; absent if it is one",
	}
}
