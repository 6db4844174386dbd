class Emoji {
	String s = "😀é"; int n = missing;
}
