package rest

// secretWords are the descriptions of the properties of secrets, as [words].
func secretWords() map[string]string {
	return map[string]string{
		"secrets":      "Files that programs find in /run/secrets, by name; in a session, they are the session's",
		"Secret.value": "Text of 8 bytes to 64 KiB", "Secret.from": "The name of a stored secret, in place of value",
		"SecretSpec.value": "Text of 8 bytes to 64 KiB", "SecretSpec.shared": "Whether every user may use it; operators only",
		"StoredSecret.name": "Its name", "StoredSecret.shared": "Whether it is an operator's, for every user",
		"StoredSecret.created_at": "When it was stored first", "StoredSecret.updated_at": "When its value was set",
	}
}
