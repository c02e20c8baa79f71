// The one place that draws with plotly.js. A chart is <div class="chart" data-src="…json" data-lang="…">; the JSON
// gives {data, layout}, where a trace names its colour as a CSS variable ("--held"): the theme decides.
(function () {
  'use strict';
  var CONFIG = {
    showSendToCloud: false, plotlyServerURL: '', displaylogo: false, responsive: true,
    modeBarButtonsToRemove: ['select2d', 'lasso2d', 'autoScale2d', 'zoomIn2d', 'zoomOut2d', 'pan2d', 'zoom2d']
  };
  var probe = document.createElement('span');
  probe.hidden = true;
  document.body.appendChild(probe);

  function colour(name) {
    probe.style.color = 'var(' + name + ')';
    return window.getComputedStyle(probe).color;
  }

  // Every string that starts with "--" is a colour of the theme.
  function themed(value) {
    if (typeof value === 'string') { return value.indexOf('--') === 0 ? colour(value) : value; }
    if (Array.isArray(value)) { return value.map(themed); }
    if (value && typeof value === 'object') {
      return Object.keys(value).reduce(function (copy, key) { copy[key] = themed(value[key]); return copy; }, {});
    }
    return value;
  }

  function layout(own) {
    var base = {
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', height: 260, hovermode: 'x unified',
      margin: { l: 44, r: 12, t: 8, b: 34 },
      font: { family: window.getComputedStyle(document.body).fontFamily, size: 12, color: colour('--ink-2') },
      legend: { orientation: 'h', x: 0, y: 1.02, yanchor: 'bottom' },
      hoverlabel: { bgcolor: colour('--surface'), bordercolor: colour('--line-strong'), font: { color: colour('--ink') } },
      xaxis: { gridcolor: colour('--line'), linecolor: colour('--line-strong'), zeroline: false, type: 'date' },
      yaxis: { gridcolor: colour('--line'), zeroline: false, rangemode: 'tozero', tickformat: ',~r', automargin: true }
    };
    Object.keys(own).forEach(function (key) {
      base[key] = own[key] && typeof own[key] === 'object' && base[key] ? Object.assign(base[key], own[key]) : own[key];
    });
    return base;
  }

  function config(element) {
    return Object.assign({ locale: element.dataset.lang === 'zh-hans' ? 'zh-CN' : 'en-US' }, CONFIG);
  }

  function draw(element) {
    var figure = element.portalFigure;
    if (!figure) { return; }
    var text = element.querySelector('.chart-note');
    if (figure.empty) {
      if (text) { text.textContent = figure.empty; }
      return;
    }
    if (text) { text.remove(); }
    window.Plotly.react(element, themed(figure.data), layout(themed(figure.layout || {})), config(element));
    open(element);
    element.dataset.drawn = String(Number(element.dataset.drawn || 0) + 1);
  }

  // A bar that names an address leads to the rows behind it.
  function open(element) {
    if (element.dataset.opens || !element.on) { return; }
    element.dataset.opens = 'yes';
    element.on('plotly_click', function (event) {
      var url = event.points.length && event.points[0].customdata;
      if (typeof url === 'string' && url.charAt(0) === '/') { window.location.assign(url); }
    });
  }

  function fail(element) {
    if (!element.portalFigure) { element.querySelector('.chart-note').textContent = element.dataset.failed; }
  }

  function load(element) {
    fetch(element.dataset.src, { headers: { Accept: 'application/json' }, credentials: 'same-origin' })
      .then(function (answer) {
        if (!answer.ok) { throw new Error(String(answer.status)); }
        return answer.json();
      })
      .then(function (figure) { element.portalFigure = figure; draw(element); })
      .catch(function () { fail(element); });
  }

  function all(action) { document.querySelectorAll('.chart[data-src]').forEach(action); }

  all(load);
  document.addEventListener('htmx:afterSwap', function () { all(load); });
  var redraw = function () { all(draw); };
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ['data-bs-theme'] });
}());
