// In a browser: plays the scenes and tells the program that opened the page.
import { cookies, play } from "./scenes.mjs";

const { urls, foreign } = await (await fetch("/task")).json();
const report = await play(urls);
// To another scheme than the page's, browsers send no cookies.
const [plain] = urls;
try {
  await cookies(plain);
  report.passed += 1;
} catch (err) {
  report.failed.push(`cookies over ${plain}: ${err?.stack ?? err}`);
}
// A listener that takes pages from elsewhere only.
const refused = await new Promise((resolve) => {
  const socket = new WebSocket(foreign);
  socket.onopen = () => resolve(false);
  socket.onerror = () => resolve(true);
});
if (refused) report.passed += 1;
else report.failed.push("a page from a foreign origin is let in");
await fetch("/report", { method: "POST", body: JSON.stringify(report) });
