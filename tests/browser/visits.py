"""What every visit of a page is held to. Input: a Playwright page; output: a list of complaints, empty when good."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

AXE = (Path(__file__).parent / "axe-core-4.14.1" / "axe.min.js").read_text()
RUN_AXE = """async () => {
  const found = await axe.run(document, {resultTypes: ['violations'], runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']});
  return found.violations.filter(v => ['serious', 'critical'].includes(v.impact))
    .map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + (n.any[0] || {}).message).join(' | '));
}"""
# Per text in a cell: characters against lines that are seen. Words of one per line stand on end; cells of
# sentences break where they like.
UPRIGHT = """() => {
  const found = [];
  for (const cell of document.querySelectorAll('table th, table td:not(.wide, .wide-name, .empty)')) {
    const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const text = walk.currentNode.textContent.trim();
      if (!/^[\\u4e00-\\u9fff]{2,}/.test(text)) { continue; }
      const range = document.createRange();
      range.selectNodeContents(walk.currentNode);
      const lines = new Set([...range.getClientRects()].filter(r => r.width > 1).map(r => Math.round(r.top))).size;
      if (lines > 1 && text.length / lines < 1.4) { found.push(cell.className + ': ' + text); }
    }
  }
  return [...new Set(found)];
}"""
WATCH_POLICY = """
window.violations = [];
document.addEventListener('securitypolicyviolation', e => window.violations.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample));
"""


class Visitor:
    """One browser context: its cookies choose user, theme and language; complaints are gathered as they come."""

    def __init__(self, browser: Any, server: str, *, cookies: dict[str, str], **options: Any) -> None:
        self.server = server
        self.context = browser.new_context(
            base_url=server, viewport={"width": 1440, "height": 900}, **options
        )
        self.context.add_cookies([{"name": k, "value": v, "url": server} for k, v in cookies.items()])
        self.context.add_init_script(WATCH_POLICY)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https") and parts.netloc != urlsplit(self.server).netloc:
            self.complaints.append(f"request to {parts.netloc}")

    def open(self, path: str) -> Any:
        self.complaints.clear()
        answer = self.page.goto(path, wait_until="networkidle")
        assert answer is not None
        return answer

    def upright(self) -> list[str]:
        """Words in cells of tables that stand on end: one character per line."""
        found: list[str] = self.page.evaluate(UPRIGHT)
        return found

    def violations(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.violations")
        return found

    def axe(self) -> list[str]:
        self.page.evaluate(AXE)
        found: list[str] = self.page.evaluate(RUN_AXE)
        return found

    def overflow(self, width: int) -> int:
        """By how many pixels the page is wider than the window."""
        self.page.set_viewport_size({"width": width, "height": 844})
        self.page.wait_for_timeout(60)
        wide: int = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        return wide

    def close(self) -> None:
        self.context.close()
