import { mount } from "svelte";
import App from "./App.svelte";
import "./theme.css";
import { begin } from "./client.svelte.ts";

await begin();
mount(App, { target: document.getElementById("page")! });
