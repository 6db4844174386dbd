package rest

// secretWords are the descriptions of the properties of secrets, as [words].
func secretWords() map[string]string {
	return map[string]string{
		"secrets":      "Files that programs find in /run/secrets, or headers for a host, by name; in a session, they are the session's",
		"Secret.value": "Text of 8 bytes to 64 KiB", "Secret.from": "The name of a stored secret, in place of value",
		"Secret.host":      "Makes it brokered: programs see a placeholder, and Belljar sets the real header on their HTTPS requests to this host",
		"Secret.header":    "The header; Authorization by default",
		"Secret.template":  "The header's value, with {} for the secret; \"Bearer {}\" for Authorization and {} for others by default",
		"SecretSpec.value": "Text of 8 bytes to 64 KiB", "SecretSpec.shared": "Whether every user may use it; operators only",
		"StoredSecret.name": "Its name", "StoredSecret.shared": "Whether it is an operator's, for every user",
		"StoredSecret.created_at": "When it was stored first", "StoredSecret.updated_at": "When its value was set",
	}
}
