package daemon

// PrivatePrefix begins the names of private servers' folders.
const PrivatePrefix = privatePrefix
