'use strict';
// Draws the figures of a report: the JSON data of each becomes a picture and a table, which can be saved as files.
// Text from records is set as text, never as markup.
(() => {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const paper = matchMedia('print');
  const SYMBOLS = ['circle', 'rect', 'triangle', 'diamond', 'roundRect', 'arrow'];
  // Colours of Okabe and Ito, which colour-blind readers can distinguish, without black and yellow:
  // they are not legible on both backgrounds.
  const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#56b4e9', '#e69f00'];
  const VIRIDIS = ['#440154', '#414487', '#2a788e', '#22a884', '#7ad151', '#fde725'];
  const PREFIXES = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, ''], [1e-3, 'm'], [1e-6, 'µ'], [1e-9, 'n']];
  // Pictures with more dots than this are drawn on a canvas, which is faster than SVG.
  const MANY = 2000;
  // Minimum ratio of the greatest to the least value for a logarithmic axis.
  const WIDE = 10;

  const node = (name, text = '', attributes = {}) => {
    const made = document.createElement(name);
    made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  const words = (value, unit) => {
    if (value === null || value === undefined || !Number.isFinite(value)) return '?';
    const digits = (x) => String(Number(x.toPrecision(4)));
    if (unit === 'B') {
      const step = value < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
      return `${digits(value / 1024 ** step)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][step]}`;
    }
    if (!unit || ['x', 'FLOP/B'].includes(unit)) return digits(value) + (unit ? ` ${unit}` : '');
    const [scale, prefix] = PREFIXES.find(([scale]) => Math.abs(value) >= scale) || PREFIXES.at(value ? -1 : 4);
    return `${digits(value / scale)} ${prefix}${unit}`;
  };

  const unitOf = (scale) => scale.rate || { bytes: 'B', nanoseconds: 's', microseconds: 's', intensity: 'FLOP/B', number: '' }[scale];

  const axis = (values, unit, more = {}) => {
    const positive = values.filter((value) => value > 0);
    const [least, most] = [positive.reduce((a, b) => Math.min(a, b), Infinity), positive.reduce((a, b) => Math.max(a, b), 0)];
    const log = unit === 'B' || (positive.length === values.length && most / least > WIDE);
    return {
      type: log ? 'log' : 'value',
      logBase: unit === 'B' ? 2 : 10,
      ...(log ? { min: least, max: most } : {}),
      axisLabel: { formatter: (value) => words(value, unit), hideOverlap: true },
      splitLine: { show: true },
      ...more,
    };
  };

  // For each kind of figure, the options of ECharts and the rows of the table.
  const kinds = {
    chart(of) {
      const [x, y] = [unitOf(of.x), unitOf(of.y)];
      const shown = of.series.map((one) => one.dots.filter(([a, b]) => a > 0 && b > 0));
      const dots = shown.flat();
      const marks = of.marks.map(([a, b, text]) => ({ coord: [a, b], value: text, name: text }));
      return {
        rows: [['curve', `x${x && `, ${x}`}`, `y${y && `, ${y}`}`, 'remark'], ...of.series.flatMap((one) =>
          one.dots.map(([a, b]) => [one.name, a, b, (of.marks.find((m) => m[0] === a && m[1] === b) || [])[2] || '']))],
        option: {
          legend: {},
          tooltip: { formatter: (p) => `${p.seriesName}\n${words(p.value[0], x)}: ${words(p.value[1], y)}` },
          xAxis: axis(dots.map((dot) => dot[0]), x, x ? {} : { min: 'dataMin' }),
          yAxis: axis(dots.map((dot) => dot[1]), y),
          series: of.series.map((one, i) => ({
            type: one.joined === 'apart' ? 'scatter' : 'line', name: one.name, data: shown[i], symbolSize: one.joined === 'apart' ? 10 : 7,
            symbol: one.joined === 'straight' ? 'none' : SYMBOLS[(i + Math.floor(i / COLOURS.length)) % SYMBOLS.length],
            lineStyle: { type: ['solid', 'dashed', 'dotted'][Math.floor(i / COLOURS.length) % 3] },
            ...(i === 0 && marks.length ? { markPoint: { symbol: 'pin', symbolSize: 36, data: marks, label: { formatter: (p) => p.name, position: 'top', fontSize: 11 } } } : {}),
          })),
        },
      };
    },

    samples(of) {
      const time = of.timed ? 'time, s' : 'number';
      const total = of.series.reduce((sum, one) => sum + one.samples.length, 0);
      const colour = (i) => COLOURS[i % COLOURS.length];
      const split = (clean) => of.series.map((one) => one.samples.filter(([, , reason]) => (reason === null) === clean));
      const series = (of_all, disturbed) => of_all.map((samples, i) => ({
        type: 'scatter', name: of.series[i].name + (disturbed ? ', disturbed' : ''), samples,
        data: samples.map(([at, value]) => [at, value]), symbol: disturbed ? 'triangle' : SYMBOLS[i % SYMBOLS.length],
        symbolSize: disturbed ? 9 : 8, large: total > MANY, itemStyle: disturbed && total <= MANY ? { color: 'transparent', borderColor: colour(i), borderWidth: 1.5 } : { color: colour(i) },
      })).filter((one) => one.data.length);
      const all = [...series(split(true), false), ...series(split(false), true)];
      const values = of.series.flatMap((one) => one.samples.map((sample) => sample[1]));
      return {
        many: total > MANY,
        rows: [['figure', time, `value, ${of.unit}`, 'disturbed by'], ...of.series.flatMap((one) =>
          one.samples.map(([at, value, reason]) => [one.name, at, value, reason || '']))],
        option: {
          legend: {},
          tooltip: { formatter: (p) => {
            const reason = all[p.seriesIndex].samples[p.dataIndex][2];
            return `${p.seriesName}\n${words(p.value[1], of.unit)} at ${words(p.value[0], of.timed ? 's' : '')}${reason ? `\n${reason}` : ''}`;
          } },
          xAxis: { type: 'value', name: of.timed ? 'seconds' : 'sample', nameLocation: 'middle', nameGap: 26, min: 0 },
          yAxis: axis(values, of.unit),
          series: all.map(({ samples, ...one }) => one),
        },
      };
    },

    steps(of) {
      const of_step = (pick) => of.steps.map((step) => (step.to === null ? '-' : pick(step.from, step.to)));
      const falls = (step) => step.from > 0 && step.to < step.from;
      return {
        height: 70 + 30 * of.steps.length,
        rows: [['', `from, ${of.unit}`, `to, ${of.unit}`, 'remark'], ...of.steps.map((s) => [s.name, s.from, s.to, s.words])],
        option: {
          tooltip: { formatter: (p) => {
            const step = of.steps[p.dataIndex];
            return `${step.name}: ${words(step.to, of.unit)}${step.words ? `\n${step.words}` : ''}`;
          } },
          grid: { right: 80, bottom: 12 },
          xAxis: { type: 'value', min: 0, axisLabel: { formatter: (value) => words(value, of.unit), hideOverlap: true } },
          yAxis: { type: 'category', inverse: true, data: of.steps.map((step) => step.name), axisLabel: { width: 150, overflow: 'break', lineHeight: 13 } },
          series: [
            { type: 'bar', stack: 'steps', data: of_step((from, to) => (from > 0 ? Math.min(from, to) : 0)), itemStyle: { color: 'transparent' }, silent: true },
            {
              type: 'bar', stack: 'steps', barMaxWidth: 18, label: { show: true, position: 'right', formatter: (p) => words(of.steps[p.dataIndex].to, of.unit) },
              data: of_step((from, to) => (from > 0 ? Math.abs(to - from) : to)).map((value, i) => ({ value, itemStyle: { color: COLOURS[falls(of.steps[i]) ? 1 : 0] } })),
            },
          ],
        },
      };
    },

    bars(of) {
      const many = of.series.length > COLOURS.length;
      return {
        height: 300 + 8 * of.series.length,
        rows: [['', 'run', `value, ${of.unit}`, 'doubted'], ...of.series.flatMap((one) =>
          one.values.map((bar, i) => [of.groups[i], one.name, bar && bar[0], (bar && bar[1]) || '']))],
        option: {
          aria: { enabled: true, label: { enabled: false }, decal: { show: many } },
          legend: {},
          tooltip: { formatter: (p) => {
            const bar = of.series[p.seriesIndex].values[p.dataIndex];
            return `${p.seriesName}\n${p.name}: ${words(bar && bar[0], of.unit)}${bar && bar[1] ? `\n${bar[1]}` : ''}`;
          } },
          xAxis: { type: 'category', data: of.groups, axisLabel: { interval: 0, width: 90, overflow: 'break' } },
          yAxis: { type: 'value', min: 0, axisLabel: { formatter: (value) => words(value, of.unit) } },
          series: of.series.map((one) => ({
            type: 'bar', name: one.name, barMaxWidth: 28,
            data: one.values.map((bar) => (bar ? { value: bar[0], itemStyle: bar[1] ? { opacity: 0.45, borderColor: COLOURS[1], borderType: 'dashed', borderWidth: 1.5 } : {} } : '-')),
          })),
        },
      };
    },

    trend(of) {
      const time = (at) => new Date(at * 1000).toISOString().replace('.000Z', 'Z');
      const regime = (dot) => (dot.regime === null ? '' : of.regimes[dot.regime]);
      const colour = (i) => (i < 0 ? '#8b949e' : COLOURS[i % COLOURS.length]);
      const quoted = of.dots.filter((dot) => !dot.aside);
      // The line has a gap where runs are missing and where a run has no result.
      const line = quoted.flatMap((dot) => [...(of.gaps.some(([, to]) => to === dot.at) ? [[dot.at * 1000 - 1, null]] : []), [dot.at * 1000, dot.value]]);
      const band = ({ from, to, regime: i }) => [{ xAxis: from * 1000, itemStyle: { color: colour(i), opacity: 0.13 } }, { xAxis: to * 1000 }];
      const groups = [...of.regimes.keys(), -1].flatMap((i) => [false, true].map((doubted) => ({
        i, doubted, dots: of.dots.filter((dot) => (dot.regime ?? -1) === i && dot.value !== null && Boolean(dot.remark) === doubted),
      }))).filter((group) => group.dots.length);
      const scatter = groups.map(({ i, doubted, dots }) => ({
        type: 'scatter', name: `${i < 0 ? (of.regimes.length ? 'regime unknown' : 'runs') : of.regimes[i]}${doubted ? ', doubted' : ''}`,
        data: dots.map((dot) => ({ value: [dot.at * 1000, dot.value], symbolSize: dot.aside ? 5 : 8 })), symbol: SYMBOLS[(i + 1) % SYMBOLS.length],
        itemStyle: doubted ? { color: 'transparent', borderColor: colour(i), borderWidth: 1.5 } : { color: colour(i) },
      }));
      return {
        many: of.dots.length > MANY,
        rows: [['run began, UTC', `value, ${of.unit}`, 'regime', 'quoted', 'doubted'], ...of.dots.map((dot) => [time(dot.at), dot.value, regime(dot), dot.aside ? 'no' : 'yes', dot.remark])],
        option: {
          useUTC: true,
          legend: {},
          tooltip: { formatter: (p) => {
            const dot = p.seriesIndex > 0 && groups[p.seriesIndex - 1].dots[p.dataIndex];
            return dot ? [time(dot.at), words(dot.value, of.unit), regime(dot), dot.remark].filter(Boolean).join('\n') : '';
          } },
          xAxis: { type: 'time', name: 'UTC', nameLocation: 'middle', nameGap: 26, axisLabel: { hideOverlap: true } },
          yAxis: axis(of.dots.map((dot) => dot.value).filter((value) => value !== null), of.unit),
          series: [
            { type: 'line', name: 'as quoted', data: line, showSymbol: false, silent: true, connectNulls: false, lineStyle: { width: 1, color: '#8b949e' }, itemStyle: { color: '#8b949e' }, markArea: { silent: true, data: of.bands.map(band) } },
            ...scatter,
          ],
        },
      };
    },

    heat_map(of) {
      const cells = of.values.flatMap((row, r) => row.map((value, c) => [c, r, value])).filter((cell) => cell[2] > 0);
      const logs = cells.map((cell) => Math.log10(cell[2]));
      return {
        height: Math.min(560, 150 + 26 * of.rows.length),
        rows: [[of.unit, ...of.columns], ...of.values.map((row, r) => [of.rows[r], ...row])],
        option: {
          tooltip: { formatter: (p) => `${of.rows[p.value[1]]}, ${of.columns[p.value[0]]}: ${words(10 ** p.value[2], of.unit)}` },
          grid: { bottom: 76 },
          xAxis: { type: 'category', data: of.columns, name: of.axes[1], nameLocation: 'middle', nameGap: 26, axisLabel: { hideOverlap: true } },
          yAxis: { type: 'category', inverse: true, data: of.rows, name: of.axes[0], nameLocation: 'start', axisLabel: { hideOverlap: true } },
          visualMap: { ...shades(logs, of.unit), orient: 'horizontal', left: 'center', bottom: 0, itemHeight: 140 },
          series: [{ type: 'heatmap', data: cells.map(([c, r], i) => [c, r, logs[i]]) }],
        },
      };
    },

    placement(nodes) {
      const label = ([cpu, threads]) => `cpu ${cpu}${threads.length ? `\nthread ${threads.join(', ')}` : ''}`;
      return {
        height: Math.min(560, 120 + 6 * nodes.reduce((sum, one) => sum + one.cpus.length, 0)),
        rows: [['node', 'cpu', 'threads'], ...nodes.flatMap((one) => one.cpus.map(([cpu, threads]) => [one.name, cpu, threads.join(' ')]))],
        option: {
          tooltip: { formatter: (p) => p.name },
          series: [{
            type: 'treemap', roam: false, nodeClick: false, breadcrumb: { show: false }, left: 4, right: 4, top: 4, bottom: 4,
            upperLabel: { show: true, height: 22, color: '#fff' }, levels: [{ itemStyle: { gapWidth: 4, borderWidth: 0 }, upperLabel: { show: false } }, { itemStyle: { color: '#57606a', borderColor: '#57606a', borderWidth: 2, gapWidth: 2 } }],
            label: { color: '#fff', fontSize: 11, lineHeight: 15 }, sort: null,
            data: nodes.map((one) => ({
              name: one.name, value: one.cpus.length,
              children: one.cpus.map((cpu) => ({ name: label(cpu), value: 1, itemStyle: { color: cpu[1].length ? COLOURS[0] : '#8b949e' } })),
            })),
          }],
        },
      };
    },

    surface(of) {
      const { rows, option } = kinds.heat_map(of);
      const log = (value) => (value > 0 ? Math.log10(value) : NaN);
      const named = (names, name) => ({ type: 'value', min: 0, max: names.length - 1, interval: Math.max(1, Math.ceil(names.length / 6)), name, nameGap: 34, axisLabel: { formatter: (i) => names[Math.round(i)] || '' } });
      const data = of.rows.flatMap((_, r) => of.columns.map((_, c) => [c, r, log(of.values[r][c])]));
      const logs = data.map((dot) => dot[2]).filter(Number.isFinite);
      return {
        rows, gl: true, height: 420,
        option: {
          tooltip: { formatter: (p) => `${of.rows[p.value[1]]}, ${of.columns[p.value[0]]}: ${words(10 ** p.value[2], of.unit)}` },
          visualMap: { ...option.visualMap, itemHeight: 100 },
          xAxis3D: named(of.columns, of.axes[1]), yAxis3D: named(of.rows, of.axes[0]),
          zAxis3D: { type: 'value', name: '', scale: true, splitNumber: 4, axisLabel: { formatter: (value) => words(10 ** value, of.unit) } },
          grid3D: { boxWidth: 110, boxDepth: 110, boxHeight: 70, postEffect: { enable: false }, temporalSuperSampling: { enable: false }, viewControl: { alpha: 25, beta: 35, distance: 250, zoomSensitivity: 0, damping: 0 }, light: { main: { intensity: 1.1 }, ambient: { intensity: 0.5 } } },
          series: [{ type: 'surface', data, dataShape: [of.rows.length, of.columns.length], wireframe: { show: true }, shading: 'color' }],
        },
      };
    },
  };

  const shades = (values, unit) => {
    const [least, most] = [Math.min(...values), Math.max(...values)];
    return { type: 'continuous', min: least, max: most > least ? most : least + 1e-9, calculable: false, inRange: { color: VIRIDIS }, text: [most, least].map((value) => words(10 ** value, unit)) };
  };

  // ECharts-GL evaluates sizes such as `[width * 1.0 / 2, height / 2]` through `new Function`, which the policy of
  // the page forbids. This function evaluates them instead.
  const workOutSizes = () => {
    const product = (text, sizes) => {
      const words = text.trim().split(/\s+/);
      const value = (word) => sizes[word] ?? Number(word);
      return words.slice(1).reduce((made, word, i) => (words[i] === '*' ? made * value(word) : words[i] === '/' ? made / value(word) : made), value(words[0]));
    };
    const { prototype } = Function;
    window.Function = function sizesFrom(...texts) {
      const text = texts.at(-1).replace(/^return/, '').trim();
      const list = /^\[(.*)\]$/.exec(text);
      return (width, height) => (list ? list[1].split(',').map((one) => product(one, { width, height })) : product(text, { width, height }));
    };
    window.Function.prototype = prototype;
  };

  const webgl = () => {
    try {
      const canvas = document.createElement('canvas');
      return Boolean(canvas.getContext('webgl2') || canvas.getContext('webgl'));
    } catch {
      return false;
    }
  };

  // Colours and sizes of all pictures, on screens and on paper.
  const themed = (drawn) => {
    const style = getComputedStyle(document.body);
    const [ink, faint, line] = ['--ink', '--faint', '--line'].map((name) => style.getPropertyValue(name).trim());
    const { option } = drawn;
    // Labels of surfaces are cut off if the line is not higher than the text.
    const room = drawn.gl ? { lineHeight: 22 } : {};
    const lines = (one) => one && { ...one, axisLabel: { color: faint, ...room, ...one.axisLabel }, nameTextStyle: { color: faint, ...room }, axisLine: { lineStyle: { color: line } }, splitLine: { ...one.splitLine, lineStyle: { color: line } } };
    const axes = {};
    for (const name of ['xAxis', 'yAxis', 'xAxis3D', 'yAxis3D', 'zAxis3D']) if (option[name]) axes[name] = lines(option[name]);
    return {
      animation: false,
      backgroundColor: 'transparent',
      color: COLOURS,
      textStyle: { color: ink, fontFamily: style.fontFamily },
      ...option,
      series: option.series.map((one) => (one.label ? { ...one, label: { color: ink, textBorderColor: 'transparent', ...one.label } } : one)),
      ...axes,
      ...(option.legend ? { legend: { type: 'scroll', bottom: 0, textStyle: { color: ink }, pageTextStyle: { color: ink }, pageIconColor: ink } } : {}),
      ...(drawn.gl || !option.xAxis ? {} : { grid: { left: 8, right: 24, top: 24, bottom: (option.legend ? 36 : 12) + (option.xAxis?.name ? 20 : 0), containLabel: true, ...option.grid } }),
      ...(option.visualMap ? { visualMap: { ...option.visualMap, textStyle: { color: ink } } } : {}),
      tooltip: { confine: true, renderMode: 'richText', ...option.tooltip },
    };
  };

  const csv = (rows) => {
    const cell = (value) => {
      let text = value === null || value === undefined ? '' : String(value);
      // An apostrophe keeps spreadsheets from reading the text as a formula.
      const number = text !== '' && Number.isFinite(Number(text));
      if (/^[=+\-@\t\r]./.test(text) && !number) text = `'${text}`;
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
  };

  const save = (name, blob) => {
    const link = node('a', '', { download: name, href: URL.createObjectURL(blob) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const saveCsv = (name, rows) => save(`${name}.csv`, new Blob([csv(rows)], { type: 'text/csv' }));

  const fileName = (title) => `${document.body.dataset.name} ${title}`.replace(/[^\p{L}\p{N}]+/gu, '-');

  const button = (text, of, act) => {
    const made = node('button', text, { type: 'button', 'aria-label': `${text}: ${of}` });
    made.addEventListener('click', act);
    return made;
  };

  const table = (rows) => {
    const made = document.createElement('table');
    const line = (row, name) => {
      const tr = node('tr');
      tr.append(...row.map((value) => node(name, value === null ? '' : String(value), typeof value === 'number' ? { class: 'right' } : name === 'th' ? { scope: 'col' } : {})));
      return tr;
    };
    const [head, body] = [node('thead'), node('tbody')];
    head.append(line(rows[0], 'th'));
    body.append(...rows.slice(1).map((row) => line(row, 'td')));
    made.append(head, body);
    return made;
  };

  const dataOf = (title, rows) => {
    const details = node('details', '', { class: 'data' });
    const region = node('div', '', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `data of ${title}` });
    details.append(node('summary', 'data as a table'), region);
    // The table is created when it is opened, because it is long for many samples.
    details.addEventListener('toggle', () => region.firstChild || region.append(table(rows)));
    return details;
  };

  const png = (chart, drawn, name) => {
    const background = getComputedStyle(document.body).getPropertyValue('--paper').trim();
    const picture = new Image();
    picture.onload = () => {
      const canvas = node('canvas', '', { width: 2 * chart.getWidth(), height: 2 * chart.getHeight() });
      const context = canvas.getContext('2d');
      context.fillStyle = background;
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(picture, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(`${name}.png`, blob));
    };
    picture.src = chart.getDataURL(drawn.svg ? { type: 'svg' } : { pixelRatio: 2 });
  };

  const svg = (chart, name) => {
    const text = decodeURIComponent(chart.getDataURL({ type: 'svg' }).split(',').slice(1).join(','));
    save(`${name}.svg`, new Blob([text], { type: 'image/svg+xml' }));
  };

  const charts = [];

  const draw = (figure, kind, { title, of }) => {
    const flat = kind === 'surface' && !webgl();
    const drawn = kinds[flat ? 'heat_map' : kind](of);
    const label = kind === 'surface' && !flat ? `${title}, surface` : title;
    const place = node('div', '', { class: 'chart', role: 'img', 'aria-label': `${label}; the table below contains its data`, 'data-kind': kind });
    place.style.height = `${drawn.height || 340}px`;
    drawn.svg = !drawn.gl && !drawn.many;
    const tools = node('div', '', { class: 'tools' });
    figure.append(place);
    if (flat) figure.append(node('p', 'no WebGL here: the surface is shown as a heat map', { class: 'faint' }));
    figure.append(tools);
    const chart = echarts.init(place, null, { renderer: drawn.svg ? 'svg' : 'canvas' });
    chart.setOption(themed(drawn));
    charts.push({ chart, drawn, place });
    const name = fileName(label);
    if (drawn.gl) {
      const turn = (by) => {
        const { beta } = chart.getOption().grid3D[0].viewControl;
        chart.setOption({ grid3D: { viewControl: { beta: beta + by } } });
      };
      tools.append(button('turn left', title, () => turn(-30)), button('turn right', title, () => turn(30)));
    }
    if (drawn.svg) tools.append(button('SVG', label, () => svg(chart, name)));
    tools.append(button('PNG', label, () => png(chart, drawn, name)));
    if (kind !== 'surface') {
      tools.append(button('CSV', label, () => saveCsv(name, drawn.rows)));
      figure.append(dataOf(title, drawn.rows));
    }
  };

  const near = (place, act) => {
    const seen = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      act(place);
    }, { rootMargin: '100px' });
    seen.observe(place);
  };

  const restyle = () => charts.forEach(({ chart, drawn, place }) => {
    chart.resize(paper.matches ? { width: Math.min(place.clientWidth || 640, 640) } : {});
    chart.setOption(themed(drawn));
  });

  const start = () => {
    for (const block of document.querySelectorAll('.block > .scroll > table')) {
      const title = block.closest('section').id;
      const value = (cell) => (cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value));
      const rows = () => [...block.rows].map((row) => [...row.cells].map(value));
      if (block.rows.length > 2) block.closest('.block').append(button('CSV', `table of ${title}`, () => saveCsv(fileName(title), rows())));
    }
    const figures = [...document.querySelectorAll('figure')];
    workOutSizes();
    const next = () => {
      const figure = figures.shift();
      if (!figure) {
        document.body.dataset.drawn = String(charts.length);
        return;
      }
      setTimeout(next);
      const data = JSON.parse(figure.querySelector('script').textContent);
      draw(figure, data.kind, data);
      // Surfaces take the most time, so each is drawn when it is scrolled into view.
      if (data.of.surface) near(figure.appendChild(node('div')), (place) => draw(place, 'surface', data));
    };
    next();
    dark.addEventListener('change', restyle);
    paper.addEventListener('change', restyle);
    new ResizeObserver(() => charts.forEach(({ chart }) => chart.resize())).observe(document.querySelector('main'));
  };

  start();
})();
