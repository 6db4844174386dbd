import { mount } from "svelte";
import App from "./App.svelte";
import "./theme.css";
import { begin } from "./client.svelte.ts";

const begun = begin(); // first: it removes a code from the address
await new Promise((resolve) => setTimeout(resolve)); // a separate task: both together would block the page for long
mount(App, { target: document.getElementById("page")! });
await begun;
