// The frame's behaviour: polite refresh, cluster choice, announcements. Pages read and work without it.
(function () {
  'use strict';
  var root = document.documentElement;
  root.classList.add('js');
  var PAUSED = 'portal-paused';

  function main() { return document.getElementById('main'); }

  function paused() { return sessionStorage.getItem(PAUSED) === '1'; }

  // Something that a swap would take away from the reader: typed text, an open menu, selected text.
  function busy() {
    var active = document.activeElement;
    if (active && active !== document.body && main() && main().contains(active)) { return true; }
    var typed = Array.prototype.some.call(document.querySelectorAll('main textarea'), function (area) {
      return area.value !== area.defaultValue;
    });
    var selection = window.getSelection();
    return typed || Boolean((selection && String(selection)) || document.querySelector('main details[open]'));
  }

  function showPause() {
    var button = document.getElementById('pause');
    if (!button) { return; }
    button.hidden = false;
    button.setAttribute('aria-pressed', String(paused()));
    button.textContent = paused() ? button.dataset.resume : button.dataset.pause;
  }

  function refresh() {
    if (document.visibilityState === 'visible' && !paused() && !busy() && main() && window.htmx) {
      window.htmx.trigger(main(), 'portal:refresh');
    }
  }

  function start() {
    var seconds = Number(document.body.dataset.refresh);
    if (main() && main().hasAttribute('hx-get') && seconds > 0) {
      showPause();
      window.setInterval(refresh, seconds * 1000);
    }
    var picker = document.getElementById('cluster');
    if (picker) { picker.addEventListener('change', function () { picker.form.submit(); }); }
  }

  document.addEventListener('click', function (event) {
    var button = event.target.closest('button');
    if (button && button.id === 'pause') {
      sessionStorage.setItem(PAUSED, paused() ? '0' : '1');
      showPause();
      if (!paused()) { refresh(); }
    }
    if (button && button.dataset.copy) {
      navigator.clipboard.writeText(button.dataset.copy).then(function () {
        document.getElementById('announce').textContent = button.dataset.done;
      });
    }
    document.querySelectorAll('.menu[open]').forEach(function (menu) {
      if (!menu.contains(event.target)) { menu.open = false; }
    });
  });

  document.addEventListener('keydown', function (event) {
    if (event.key === 'Escape') {
      document.querySelectorAll('.menu[open]').forEach(function (menu) {
        menu.open = false;
        menu.querySelector('summary').focus();
      });
    }
  });

  function statusText() {
    var told = document.querySelector('main [data-status]');
    return told ? told.textContent : '';
  }
  var status = statusText();

  // After the reader asked for other rows, say how many there are; a silent refresh says nothing, unless where
  // something stands is not what it was.
  document.addEventListener('htmx:afterSwap', function (event) {
    var config = event.detail.requestConfig;
    var by = config && config.triggeringEvent ? config.triggeringEvent.type : '';
    showPause();
    var count = document.querySelector('main [data-announce]');
    if (by !== 'portal:refresh' && count) { document.getElementById('announce').textContent = count.textContent; }
    if (by === 'portal:refresh' && statusText() !== status) { document.getElementById('announce').textContent = statusText(); }
    status = statusText();
  });

  start();
}());
