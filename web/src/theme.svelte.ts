// The theme: light, dark, or the system's.
type Name = "system" | "light" | "dark";

const key = "belljar.theme";
const stored = localStorage.getItem(key);

export const theme: { name: Name } = $state({ name: stored === "light" || stored === "dark" ? stored : "system" });
apply();

/** nextTheme cycles from the system's colours to light to dark. */
export function nextTheme(): void {
  theme.name = theme.name === "system" ? "light" : theme.name === "light" ? "dark" : "system";
  if (theme.name === "system") localStorage.removeItem(key);
  else localStorage.setItem(key, theme.name);
  apply();
}

function apply(): void {
  if (theme.name === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.name;
}
