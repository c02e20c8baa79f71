// Opens and closes nodes of the queue tree in place. Without it the same links load the page with `open=`.
(function () {
  'use strict';

  function depth(row) { return Number((row.className.match(/\bd(\d+)/) || [0, 0])[1]); }

  // The lines of one node: its first row and those of its other kinds of devices.
  function lastOf(row) {
    var next = row.nextElementSibling;
    while (next && depth(next) === depth(row) && !next.querySelector('th')) { row = next; next = row.nextElementSibling; }
    return row;
  }

  function close(row) {
    var after = lastOf(row);
    while (after.nextElementSibling && depth(after.nextElementSibling) > depth(row)) { after.nextElementSibling.remove(); }
  }

  // What is open stands in the address, so that the link, a reload and the silent refresh show the same.
  function remember() {
    var query = new URLSearchParams(window.location.search);
    query.delete('open');
    var open = document.querySelectorAll('.qt .x[aria-expanded=true]');
    open.forEach(function (link) { query.append('open', link.dataset.key); });
    if (!open.length) { query.append('open', '-'); }
    var url = window.location.pathname + '?' + query.toString().replace(/%2F/g, '/');
    window.history.replaceState(window.history.state, '', url);
    var main = document.getElementById('main');
    main.setAttribute('hx-get', url);
    if (window.htmx) { window.htmx.process(main); }
  }

  function label(link, opened) {
    var words = document.querySelector('.qt').dataset[opened ? 'close' : 'open'];
    link.setAttribute('aria-expanded', String(opened));
    link.setAttribute('aria-label', words.replace('%s', link.nextElementSibling.textContent));
  }

  function toggle(link) {
    var row = link.closest('tr');
    if (link.getAttribute('aria-expanded') === 'true') {
      close(row);
      label(link, false);
      remember();
      return;
    }
    var query = new URLSearchParams(window.location.search);
    query.delete('open');
    query.set('part', link.dataset.key);
    link.setAttribute('aria-busy', 'true');
    fetch(window.location.pathname + '?' + query, { credentials: 'same-origin' }).then(function (answer) {
      if (!answer.ok) { throw new Error(answer.status); }
      return answer.text();
    }).then(function (rows) {
      lastOf(row).insertAdjacentHTML('afterend', rows);
      label(link, true);
      remember();
    }).catch(function () { window.location.href = link.href; }).finally(function () { link.removeAttribute('aria-busy'); });
  }

  document.addEventListener('click', function (event) {
    var link = event.target.closest('.qt .x');
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) { return; }
    event.preventDefault();
    if (!link.hasAttribute('aria-busy')) { toggle(link); }
  });
}());
