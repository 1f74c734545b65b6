import { mount } from "svelte";
import App from "./App.svelte";
import { session } from "./lib/session.svelte";
import "./style.css";

void session.begin();
mount(App, { target: document.getElementById("console")! });
