'use strict';
// Draws the figures of a report: the JSON data of each becomes a picture and a table, which can be saved as files.
// Text from records is set as text, never as markup.
(() => {
	const dark = matchMedia('(prefers-color-scheme: dark)');
	const paper = matchMedia('print');
	const PREFIXES = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, ''], [1e-3, 'm'], [1e-6, 'u'], [1e-9, 'n']];
	const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
	// Pictures with more dots than this are drawn on a canvas, which is faster than SVG.
	const MANY = 2000;
	// Minimum ratio of the greatest to the least value for a logarithmic axis.
	const WIDE = 10;
	// Pictures that are narrower than this name their curves above the picture instead of at the ends of the curves.
	const NARROW = 560;
	const SYMBOLS = ['circle', 'rect', 'triangle', 'diamond'];
	// The same as text, filled and hollow.
	const FILLED = ['●', '■', '▲', '◆'];
	const HOLLOW = ['○', '□', '△', '◇'];
	// Ring around a dot with a remark.
	const RING = '◯';
	// Number of the symbol of a series: no two of the first sixteen have the same colour and symbol.
	const symbolOf = (i) => (i + Math.floor(i / 4)) % 4;
	const FONT = 12;
	const CELL = 160;

	const node = (name, text = '', attributes = {}) => {
		const made = document.createElement(name);
		made.textContent = text;
		for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
		return made;
	};

	const digits = (x, n = 4) => String(Number(x.toPrecision(n)));
	// The same with all digits, so that labels below each other have as many.
	const allDigits = (x, n = 4) => x.toFixed(Math.max(0, n - 1 - Math.max(0, Math.floor(Math.log10(Math.abs(x) || 1)))));

	const words = (value, unit, n = 4, shown = digits) => {
		if (value === null || value === undefined || !Number.isFinite(value)) return '?';
		if (unit === 'B') {
			const step = value < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(value) / 10));
			return `${digits(value / 1024 ** step, n)} ${SIZES[step]}`;
		}
		if (unit === 'FLOP/B' && value < 1 && Number.isInteger(Math.log2(value))) return `1/${2 ** -Math.log2(value)}`;
		if (!unit || ['x', '%', 'FLOP/B'].includes(unit)) return shown(value, n) + (['x', '%'].includes(unit) ? ` ${unit}` : '');
		const [scale, prefix] = PREFIXES.find(([scale]) => Math.abs(value) >= scale * 0.9999) || PREFIXES.at(value ? -1 : 4);
		return `${shown(value / scale, n)} ${prefix}${unit}`;
	};

	// A value with its unit, as the tables print it.
	const figure = (value, unit) => words(value, unit, 4, allDigits);

	const unitOf = (scale) => scale.rate || { bytes: 'B', nanoseconds: 's', microseconds: 's', intensity: 'FLOP/B', percent: '%', number: '' }[scale];

	const pen = document.createElement('canvas').getContext('2d');
	const widthOf = (text, size = FONT, weight = 400) => {
		pen.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
		return Math.max(0, ...String(text).split('\n').map((line) => pen.measureText(line).width));
	};
	const widest = (texts, weight = 400) => texts.reduce((most, text) => Math.max(most, widthOf(text, FONT, weight)), 0);

	const cut = (text, room) => {
		if (widthOf(text) <= room) return text;
		let shown = text;
		while (shown.length > 1 && widthOf(`${shown}…`) > room) shown = shown.slice(0, -1);
		return `${shown.trimEnd()}…`;
	};

	// Breaks a text at spaces into lines that fit the room, at most `most`; a number stays with its unit or its name if both
	// fit into one line.
	const broken = (text, room, most = 3) => {
		const joined = text.replace(/(\d) (?=[^\s\d(])/g, '$1\u00a0').replace(/([a-z]) (?=\d)/g, '$1\u00a0');
		const isFit = joined.split(' ').every((word) => widthOf(word) <= room);
		const lines = [''];
		for (const word of (isFit ? joined : text).split(' ')) {
			const longer = `${lines.at(-1)} ${word}`.trim();
			if (widthOf(longer) <= room || !lines.at(-1)) lines[lines.length - 1] = longer;
			else lines.push(word);
		}
		const kept = lines.slice(0, most);
		if (lines.length > most) kept[most - 1] = `${kept[most - 1]} …`;
		return kept.map((line) => cut(line, room)).join('\n');
	};

	// Colours of the page: four for data, one for doubt.
	const theme = () => {
		const style = getComputedStyle(document.body);
		const colour = (name) => style.getPropertyValue(`--${name}`).trim();
		const all = Object.fromEntries(['panel', 'ink', 'faint', 'line', 'grid', 'pale', 'heat0', 'heat1', 'doubt'].map((name) => [name, colour(name)]));
		return { ...all, data: [1, 2, 3, 4].map((n) => colour(`c${n}`)), font: style.fontFamily };
	};

	// Ticks between two values: powers of two for sizes, otherwise decades or round steps, at most `most`.
	const ticksOf = (least, most, unit, log, count) => {
		if (unit === 'B' || unit === 'FLOP/B') {
			const [from, to] = [Math.ceil(Math.log2(least) - 1e-9), Math.floor(Math.log2(most) + 1e-9)];
			const powers = (step) => {
				const first = Math.ceil(from / step) * step;
				return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, i) => 2 ** (first + i * step));
			};
			return [1, 2, 3, 4, 5, 6, 8, 10, 20].map(powers).find((ticks) => ticks.length <= count) || powers(40);
		}
		if (log) {
			const [from, to] = [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))];
			const decades = Array.from({ length: to - from + 1 }, (_, i) => from + i);
			const within = (value) => value >= least * 0.9999 && value <= most * 1.0001;
			for (const factors of [[1, 2, 5], [1, 3], [1]]) {
				const ticks = decades.flatMap((decade) => factors.map((factor) => factor * 10 ** decade)).filter(within);
				if (ticks.length <= count && ticks.length > 2) return ticks;
			}
			if (most / least < WIDE) return ticksOf(least, most, unit, false, count);
			const step = Math.ceil(decades.length / count);
			return decades.filter((_, i) => i % step === 0).map((decade) => 10 ** decade).filter(within);
		}
		const raw = (most - least) / Math.max(1, count - 1);
		if (!(raw > 0)) return [least];
		const power = 10 ** Math.floor(Math.log10(raw));
		const step = [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= raw * 0.9999);
		const first = Math.ceil(least / step - 1e-9);
		const length = Math.floor(most / step - first + 1e-9) + 1;
		if (length < 2 && count < 8) return ticksOf(least, most, unit, false, count + 1);
		return Array.from({ length }, (_, i) => Number(((first + i) * step).toPrecision(12)));
	};

	// Axis over these values with room at both ends, and its ticks. Linear axes of rates begin at zero.
	const axisOf = (values, unit, { room, count, given = [], from = 0, log: wanted }) => {
		const finite = values.filter(Number.isFinite);
		const positive = finite.filter((value) => value > 0);
		let [least, most] = [positive.reduce((a, b) => Math.min(a, b), Infinity), positive.reduce((a, b) => Math.max(a, b), 0)];
		if (!positive.length) [least, most] = [0, 1];
		const log = wanted ?? (least > 0 && (unit === 'B' || unit === 'FLOP/B' || (positive.length === finite.length && most / least > WIDE)));
		if (log) {
			if (most <= least * 1.0001) [least, most] = [least / 2, most * 2];
			const span = Math.log(most / least) * room;
			[least, most] = [least * Math.exp(-span), most * Math.exp(span)];
		} else {
			least = Number.isFinite(from) ? from : least - (most - least) * room;
			most += (most - least || Math.abs(most) || 1) * room;
		}
		const ticks = given.length && given.length <= count ? given : ticksOf(least, most, unit, log, count);
		return { least, most, log, ticks };
	};

	const [MINUTE, DAY] = [60e3, 86400e3];
	const INTERVALS = [1e3, 5e3, 15e3, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, 60 * MINUTE, 180 * MINUTE, 360 * MINUTE, 720 * MINUTE, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY, 182 * DAY, 365 * DAY];
	// Ticks between two times in milliseconds, at most `count`: days, or times with the day below the first of each day.
	const datesOf = (from, to, count) => {
		const firstOf = (one) => Math.ceil(from / one) * one;
		const lengthOf = (one) => Math.floor((to - firstOf(one)) / one) + 1;
		const step = INTERVALS.find((one) => lengthOf(one) <= count) || (to - from) / count;
		const first = firstOf(step);
		let day = '';
		return Array.from({ length: lengthOf(step) }, (_, i) => {
			const at = first + i * step;
			const [date, clock] = new Date(at).toISOString().split('T');
			if (step >= DAY) return { at, text: date };
			const isNew = date !== day;
			day = date;
			const time = clock.slice(0, step < MINUTE ? 8 : 5);
			return { at, text: isNew ? `${time}\n${date}` : time };
		});
	};

	const tickText = (value, unit) => (value === 0 && unit ? '0' : words(value, unit));

	const axisOption = ({ least, most, log, ticks }, unit, t, more = {}) => ({
		type: log ? 'log' : 'value', min: least, max: most,
		axisLabel: { customValues: ticks, formatter: (value) => tickText(value, unit), color: t.faint, fontSize: FONT, showMinLabel: true, showMaxLabel: true },
		axisTick: { show: false, customValues: ticks }, axisLine: { show: false }, minorTick: { show: false },
		splitLine: { show: true, lineStyle: { color: t.grid } },
		nameTextStyle: { color: t.faint, fontSize: FONT, lineHeight: 15 }, ...more,
	});

	const nameBelow = (name) => ({ name, nameLocation: 'middle', nameGap: 28 });
	// Room below the axis for its name, which has up to two lines.
	const nameRoomOf = (name) => (name ? 7 + 15 * name.split('\n').length : 0);
	// Name of the horizontal axis, with the axes that are logarithmic; in two lines where one is too short.
	const nameOfAxes = (name, horizontal, vertical, room) => {
		const scales = horizontal.log && vertical.log ? ['both axes log scale', 'log-log'] : horizontal.log ? ['log scale', 'log'] : vertical.log ? ['vertical axis log scale', 'vertical log'] : [];
		if (!name || !scales.length) return name || scales[0] || '';
		const endings = scales.map((scale) => `${vertical.log ? ';' : ','} ${scale}`);
		const ending = endings.find((one) => widthOf(name + one) <= room) || endings[1];
		return broken(name + ending, room, 2);
	};

	const place = ({ least, most, log }, value) => (log ? Math.log(value / least) / Math.log(most / least) : (value - least) / (most - least));

	// Heights of labels that must not overlap: moves them apart, and keeps them between the ends.
	const apart = (wanted, gap, low, high) => {
		const order = wanted.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0]);
		for (let i = 1; i < order.length; i += 1) order[i][0] = Math.max(order[i][0], order[i - 1][0] + gap);
		let limit = high;
		for (let i = order.length - 1; i >= 0; i -= 1) { order[i][0] = Math.min(order[i][0], limit); limit = order[i][0] - gap; }
		const found = [];
		order.forEach(([y, i]) => { found[i] = Math.max(y, low); });
		return found;
	};

	const text = (t, x, y, string, more = {}) => ({ type: 'text', silent: true, z: 10, x, y, ...more.at, style: { text: string, fill: t.ink, font: `${more.weight || 400} ${FONT}px ${t.font}`, lineHeight: 15, ...more.style } });
	// Outline in the colour of the page, so that no line crosses a label.
	const halo = (t) => ({ stroke: t.panel, lineWidth: 4 });
	const line = (x1, y1, x2, y2, colour, more = {}) => ({ type: 'line', silent: true, shape: { x1, y1, x2, y2 }, style: { stroke: colour, lineWidth: 1, fill: null, ...more } });

	const mix = (a, b, share) => {
		const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
		const [from, to] = [parts(a), parts(b)];
		return `#${from.map((x, i) => Math.round(x + (to[i] - x) * share).toString(16).padStart(2, '0')).join('')}`;
	};
	const luminance = (colour) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
		const x = parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16) / 255;
		return sum + weight * (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
	}, 0);

	// Colours of a label on a cell: black, or white with a darker outline. White looks sharper on blue even where black has
	// the higher contrast by luminance.
	const legible = (colour) => (luminance(colour) > 0.23 ? { color: '#000' } : { color: '#fff', textBorderColor: mix(colour, '#000000', 0.4), textBorderWidth: 2 });

	// Bars and dots of suspect figures are hollow, in the colour of their series.
	const suspectBar = (t, colour) => ({ fill: t.panel, stroke: colour, lineWidth: 1.5 });
	const suspectKey = (t, dot = '▭') => ({ name: 'hollow: suspect', colour: t.faint, dot, always: true });

	// Colour, symbol and dash of each curve. Curves with a colour of their own keep it on all charts of a page; curves of
	// one colour differ in symbol and dash.
	const looksOf = (series) => {
		const before = new Map();
		return series.map((one, i) => {
			if (one.colour === null) return { colour: i % 4, symbol: i % 4, dash: Math.floor(i / 4) % 3 };
			const colour = one.colour % 4;
			const number = before.get(colour) || 0;
			before.set(colour, number + 1);
			return { colour, symbol: (colour + number) % 4, dash: (one.dash ?? number) % 3 };
		});
	};
	// Colour of a series: after the four colours of the page, darker ones on white and lighter ones on black.
	const hue = (t, i) => (i % 8 < 4 ? t.data[i % 4] : mix(t.data[i % 4], t.ink, 0.5));
	const DASHES = ['solid', 'dashed', 'dotted'];

	// For each kind of figure: the rows of its table, and a function that returns its options for a width and a theme.
	const kinds = {
		chart(of) {
			const [x, y] = [unitOf(of.x), unitOf(of.y)];
			const isShown = ([a, b]) => a > 0 && (b > 0 || b === null);
			const straight = of.series.some((one) => one.joined === 'straight');
			const own = of.series.filter((one) => one.joined !== 'straight');
			const roofs = of.series.filter((one) => one.joined === 'straight');
			const shown = of.series.map((one) => one.dots.filter(isShown));
			const dots = shown.flat().filter((dot) => dot[1] !== null);
			const doubtOf = (one, [a, b]) => (one.doubts.find((dot) => dot[0] === a && dot[1] === b) || [])[2];
			const remarksOf = (one, [a, b]) => one ? [((one.beyond || []).find((dot) => dot[0] === a && dot[1] === b) || [])[2], doubtOf(one, [a, b])] : [];
			const remark = (one, dot) => [(of.marks.find((m) => m[0] === dot[0] && m[1] === dot[1]) || [])[2], ...remarksOf(one, dot)].filter(Boolean).join('; ');
			const named = own.length > 1 || (own.length === 1 && straight);
			const looks = looksOf(own);
			return {
				height: straight ? 520 : 380,
				low: straight ? 420 : 260,
				rows: [['curve', `x${x && `, ${x}`}`, `y${y && `, ${y}`}`, 'remark'], ...of.series.flatMap((one) =>
					one.dots.filter((dot) => dot[1] !== null).map((dot) => [one.name, dot[0], dot[1], remark(one, dot)]))],
				key: (t) => [
					...(named && !straight ? own.map((one, i) => ({ name: one.name, colour: t.data[looks[i].colour], dash: DASHES[looks[i].dash], mark: FILLED[looks[i].symbol] })) : []),
					...(own.some((one) => one.doubts.length) ? [suspectKey(t, HOLLOW[3])] : []),
					...(own.some((one) => (one.beyond || []).length) ? [{ name: 'arrow: beyond the axis', colour: t.faint, dot: '▸', always: true }] : []),
					...[...new Set(of.marks.map((mark) => mark[2]))].map((name) => ({ name: `ringed: ${name}`, colour: t.ink, dot: RING, always: true })),
				],
				pick: straight ? (p) => (of.series[p.seriesIndex]?.notes || [])[p.dataIndex] : null,
				option(width, height, t) {
					const narrow = width < NARROW;
					const guidesX = of.guides.filter((guide) => guide.axis === 'x');
					const guidesY = of.guides.filter((guide) => guide.axis === 'y');
					const ys = dots.map((dot) => dot[1]).concat(guidesY.map((guide) => guide.at));
					const horizontal = axisOf(dots.map((dot) => dot[0]), x, { room: straight ? 0.02 : 0.03, count: Math.max(3, Math.floor(width / (x === 'B' ? 80 : 110))), given: x ? [] : [...new Set(of.ticks)], from: x ? 0 : NaN });
					const vertical = axisOf(ys, y, { room: straight ? 0.06 : 0.05, count: Math.max(3, Math.floor(height / 60)), log: straight || undefined });
					const atEnds = named && !narrow && !straight;
					const endText = (one, i) => cut(`${FILLED[looks[i].symbol]} ${one.name}`, 200);
					const flat = roofs.filter((one) => one.dots.length === 2 && one.dots[0][1] === one.dots[1][1]);
					const roofText = (one) => `${one.name} ${words(one.dots[0][1], y, 3)}`;
					const right = atEnds ? widest(own.map(endText), 600) + 20 : straight && !narrow ? widest(flat.map(roofText), 600) + 16 : 20;
					const left = widest(vertical.ticks.map((tick) => words(tick, y))) + 12;
					const [plotX, plotRight] = [left, width - right];
					// Labels of vertical lines stand in as few rows above the picture as they need.
					const rows = [];
					const labelled = guidesX.filter((guide) => guide.at >= horizontal.least && guide.at <= horizontal.most).sort((a, b) => a.at - b.at).map((guide) => {
						const at = plotX + place(horizontal, guide.at) * (plotRight - plotX);
						const half = widthOf(guide.text) / 2 + 6;
						const centre = Math.min(Math.max(at, half), width - half);
						let row = rows.findIndex((end) => end <= centre - half);
						if (row < 0) row = rows.length;
						rows[row] = centre + half;
						return { ...guide, pixel: at, centre, row };
					});
					const top = 12 + rows.length * 18;
					const axisName = nameOfAxes(of.names[0], horizontal, vertical, plotRight - plotX);
					const bottom = 30 + nameRoomOf(axisName);
					const plotBottom = height - bottom;
					const yPixel = (value) => plotBottom - place(vertical, value) * (plotBottom - top);
					const graphics = [];
					for (const guide of labelled) {
						graphics.push({ ...line(guide.pixel, top - 4, guide.pixel, plotBottom, t.faint, { lineDash: [4, 4] }), z: 1 });
						graphics.push(text(t, guide.centre, 2 + guide.row * 18, guide.text, { style: { fill: t.faint, textAlign: 'center' } }));
					}
					for (const guide of guidesY) {
						const at = yPixel(guide.at);
						graphics.push({ ...line(plotX, at, plotRight, at, t.faint, { lineDash: [4, 4] }), z: 1 });
						// The label stands where it covers no dot: at one of the ends, below or above the line.
						const w = widthOf(guide.text);
						const spots = [plotRight - 4 - w, plotX + 4, (plotX + plotRight - w) / 2].flatMap((left) => [[left, at + 4], [left, at - 18]]);
						const pixels = dots.map(([a, b]) => [plotX + place(horizontal, a) * (plotRight - plotX), yPixel(b)]);
						const covers = ([left, up]) => up < top || up + 14 > plotBottom || labelled.some(({ pixel }) => pixel > left - 4 && pixel < left + w + 4) || pixels.some(([px, py]) => px > left - 8 && px < left + w + 8 && py > up - 8 && py < up + 22);
						const [left, up] = spots.find((spot) => !covers(spot)) || spots[0];
						graphics.push(text(t, left, up, guide.text, { style: { fill: t.faint, ...halo(t) } }));
					}
					const colour = (i) => t.data[looks[i].colour];
					if (atEnds) {
						const ends = own.map((one) => one.dots.filter(([a, b]) => a > 0 && b > 0).at(-1));
						const heights = apart(ends.map((end) => (end ? yPixel(end[1]) - 7 : top)), 16, 0, plotBottom - 14);
						own.forEach((one, i) => ends[i] && graphics.push(text(t, plotRight + 8, heights[i], endText(one, i), { weight: 600, style: { fill: colour(i) } })));
					}
					if (straight) {
						const { made, unlabelled } = roofLabels({ roofs, flat, roofText, t, width, narrow, plotX, plotRight, top, plotBottom, horizontal, yPixel, colour, points: own });
						graphics.push(...made);
						this.unlabelled = unlabelled;
					}
					const marks = of.marks.map(([a, b]) => [a, b]);
					let number = -1;
					const series = of.series.map((one, i) => {
						if (one.joined === 'straight') {
							const peak = one === roofs[0] || one === roofs.at(-1);
							return { type: 'line', name: one.name, data: shown[i], symbol: 'none', silent: true, itemStyle: { color: t.ink }, lineStyle: { color: peak ? t.ink : t.faint, width: peak ? 2 : 1, type: peak ? 'solid' : 'dashed' } };
						}
						number += 1;
						const apartDots = one.joined === 'apart';
						// A suspect dot is a hollow diamond.
						const suspect = { symbol: SYMBOLS[3], symbolSize: apartDots ? 13 : 11, itemStyle: { color: t.panel, borderColor: colour(number), borderWidth: 2 } };
						return {
							type: apartDots ? 'scatter' : 'line', name: one.name, data: shown[i].map((dot) => (doubtOf(one, dot) === undefined ? dot : { value: dot, ...suspect })), symbolSize: apartDots ? 11 : one.is_bound ? 5 : 7, symbol: SYMBOLS[apartDots ? Math.floor(number / 4) % 4 : looks[number].symbol],
							itemStyle: { color: colour(number), ...(apartDots ? { borderColor: t.panel, borderWidth: 1 } : {}) }, lineStyle: { color: colour(number), width: one.is_bound ? 1 : 2, type: DASHES[looks[number].dash] }, connectNulls: false, clip: false, z: 3,
						};
					});
					const beyond = own.flatMap((one) => (one.beyond || []).map(([a, b]) => [a, b]));
					if (beyond.length) series.push({ type: 'scatter', name: 'beyond', data: beyond, symbol: 'arrow', symbolRotate: -90, symbolOffset: [12, 0], symbolSize: 11, silent: true, itemStyle: { color: t.ink }, clip: false, z: 4 });
					if (marks.length) series.push({ type: 'scatter', name: 'marks', data: marks, symbolSize: 16, silent: true, itemStyle: { color: 'transparent', borderColor: t.ink, borderWidth: 1.5 }, z: 4 });
					return {
						grid: { left: plotX, right, top, bottom },
						tooltip: { formatter: (p) => [p.seriesName, `${words(p.value[0], x)}: ${words(p.value[1], y)}`, (of.series[p.seriesIndex]?.notes || [])[p.dataIndex], ...remarksOf(of.series[p.seriesIndex], p.value)].filter(Boolean).map((part) => broken(part, 320)).join('\n') },
						xAxis: axisOption(horizontal, x, t, { ...nameBelow(axisName), axisLabel: { ...axisOption(horizontal, x, t).axisLabel } }),
						yAxis: axisOption(vertical, y, t),
						graphic: graphics,
						series,
					};
				},
			};
		},

		samples(of) {
			const time = of.timed ? 'time, s' : 'number';
			const total = of.series.reduce((sum, one) => sum + one.samples.length, 0);
			const split = (clean) => of.series.map((one) => one.samples.filter(([, , reason]) => (reason === null) === clean));
			const groups = (disturbed) => split(!disturbed).map((samples, i) => ({ i, disturbed, samples })).filter((one) => one.samples.length);
			const all = [...groups(false), ...groups(true)];
			const values = of.series.flatMap((one) => one.samples.map((sample) => sample[1]));
			const times = of.series.flatMap((one) => one.samples.map((sample) => sample[0]));
			return {
				many: total > MANY,
				height: 380,
				low: 300,
				rows: [['figure', time, `value, ${of.unit}`, 'disturbed by'], ...of.series.flatMap((one) =>
					one.samples.map(([at, value, reason]) => [one.name, at, value, reason || '']))],
				key: (t) => [...of.series.map((one, i) => ({ name: one.name, colour: hue(t, i), dot: FILLED[symbolOf(i)] })), ...(all.some((one) => one.disturbed) ? [{ name: 'hollow: disturbed', colour: t.faint, dot: HOLLOW.join('') }] : [])],
				option(width, height, t) {
					const vertical = axisOf(values, of.unit, { room: 0.08, count: Math.floor(height / 50), from: NaN });
					const cropped = vertical.log ? '; values in log scale' : '; the axis of the values does not begin at zero';
					const horizontal = axisOf(times, '', { room: 0.02, count: Math.max(3, Math.floor(width / 90)), log: false });
					if (!of.timed) horizontal.ticks = horizontal.ticks.filter(Number.isInteger);
					const left = widest(vertical.ticks.map((tick) => words(tick, of.unit))) + 12;
					const axisName = broken(`${of.timed ? 'seconds since the first sample' : 'number of the sample'}${cropped}`, width - left - 16, 2);
					return {
						grid: { left, right: 16, top: 12, bottom: 30 + nameRoomOf(axisName) },
						tooltip: { formatter: (p) => {
							const { i, samples } = all[p.seriesIndex];
							const reason = samples[p.dataIndex][2];
							return `${of.series[i].name}\n${words(p.value[1], of.unit)} at ${words(p.value[0], of.timed ? 's' : '')}${reason ? `\n${broken(reason, 320)}` : ''}`;
						} },
						xAxis: axisOption(horizontal, '', t, nameBelow(axisName)),
						yAxis: axisOption(vertical, of.unit, t),
						series: all.map(({ i, disturbed, samples }) => ({
							type: 'scatter', name: of.series[i].name + (disturbed ? ', disturbed' : ''), data: samples.map(([at, value]) => [at, value]), symbol: SYMBOLS[symbolOf(i)],
							symbolSize: 8, large: total > MANY, itemStyle: disturbed && total <= MANY ? { color: t.panel, borderColor: hue(t, i), borderWidth: 1.5 } : { color: hue(t, i), opacity: disturbed ? 0.3 : 0.8 },
						})),
					};
				},
			};
		},

		steps(of) {
			const steps = of.steps;
			const falls = (step) => step.from > 0 && step.to !== null && step.to < step.from;
			const labelOf = (step) => (step.to === null ? 'no result' : step.label && of.unit === 's' ? step.label : `${figure(step.to, of.unit)}${step.label ? `, ${step.label}` : ''}`);
			return {
				height: 40 + (steps.length > 20 ? 22 : 40) * steps.length,
				// On a phone, a name and a value have up to three lines.
				low: 40 + (steps.length > 20 ? 22 : 52) * steps.length,
				rows: [['', `from, ${of.unit}`, `to, ${of.unit}`, 'remark', 'reason for doubt'], ...steps.map((s) => [s.name, s.from, s.to, s.words, s.doubt || ''])],
				key: (t) => [
					...(steps.some((step) => falls(step) && !step.is_open) ? [{ name: 'increase', colour: t.data[0], dot: '■', always: true }, { name: 'decrease', colour: t.data[2], dot: '■', always: true }] : []),
					...(steps.some((step) => step.interval) ? [{ name: '95 % interval', colour: t.ink, dot: '├┤', always: true }] : []),
					...(steps.some((step) => step.is_open) ? [{ name: 'not distinguishable from no effect', colour: t.data[3], dot: '■', always: true }] : []),
					...(steps.some((step) => step.doubt) ? [suspectKey(t)] : []),
				],
				option(width, height, t) {
					const narrow = width < NARROW;
					const nameRoom = Math.min(widest(steps.map((step) => step.name)), width * (narrow ? 0.28 : 0.3));
					const names = steps.map((step) => broken(step.name, nameRoom));
					const labels = steps.map((step) => broken(labelOf(step), narrow ? width * 0.3 : 320, narrow && steps.length <= 20 ? 3 : 2));
					const [left, right] = [nameRoom + 16, widest(labels) + 20];
					const ends = steps.flatMap((step) => [step.from, step.to ?? 0, ...(step.interval || [])]);
					const axis = axisOf(ends, of.unit, { room: 0.01, count: Math.max(2, Math.floor((width - left - right) / 90)), log: false });
					const row = (height - 30) / Math.max(1, steps.length);
					const thick = Math.min(18, row * 0.6);
					const end = (step) => Math.max(step.from, step.to ?? step.from, ...(step.interval || []));
					const draw = (params, api) => {
						const step = steps[params.dataIndex];
						const y = api.coord([0, params.dataIndex])[1];
						const at = (value) => api.coord([value, params.dataIndex])[0];
						const [a, b] = [step.from, step.to ?? step.from].map(at);
						const colour = step.is_open ? t.data[3] : falls(step) ? t.data[2] : t.data[0];
						const children = [];
						if (step.to !== null) children.push({ type: 'rect', shape: { x: Math.min(a, b), y: y - thick / 2, width: Math.max(2, Math.abs(b - a)), height: thick, r: 2 }, style: step.doubt ? suspectBar(t, colour) : { fill: colour, opacity: step.is_open ? 0.45 : 0.9 } });
						const next = steps[params.dataIndex + 1];
						if (next && next.from > 0 && step.to !== null) children.push(line(at(next.from), y + thick / 2, at(next.from), y + row - thick / 2, t.faint, { lineDash: [2, 3] }));
						if (step.interval) {
							const [low, high] = step.interval.map(at);
							children.push(line(low, y, high, y, t.ink), line(low, y - 4, low, y + 4, t.ink), line(high, y - 4, high, y + 4, t.ink));
						}
						children.push(text(t, at(end(step)) + 8, y, labels[params.dataIndex], { style: { textVerticalAlign: 'middle', ...halo(t) } }));
						return { type: 'group', children };
					};
					return {
						grid: { left, right, top: 4, bottom: 26 },
						tooltip: { formatter: (p) => [steps[p.dataIndex].name, labelOf(steps[p.dataIndex]), steps[p.dataIndex].words, steps[p.dataIndex].doubt].filter(Boolean).map((part) => broken(part, 320)).join('\n') },
						xAxis: axisOption(axis, of.unit, t),
						yAxis: { type: 'category', inverse: true, data: names, axisLabel: { color: t.ink, fontSize: FONT, interval: 0, lineHeight: 14 }, axisLine: { show: false }, axisTick: { show: false } },
						series: [{ type: 'custom', renderItem: draw, data: steps.map((step, i) => [step.to ?? step.from, i]), clip: false }],
					};
				},
			};
		},

		bars(of) {
			const bar = 12;
			const group = of.series.length * (bar + 2) + 14;
			const values = of.series.flatMap((one) => one.values.map((value) => (value ? value[0] : 0)));
			return {
				height: 40 + group * of.groups.length,
				rows: [['', 'run', `value, ${of.unit}`, 'reason for doubt'], ...of.series.flatMap((one) =>
					one.values.map((value, i) => [of.groups[i], one.name, value && value[0], (value && value[1]) || '']))],
				key: (t) => [...of.series.map((one, i) => ({ name: one.name, colour: hue(t, i), dot: '■' })), ...(of.series.some((one) => one.values.some((value) => value && value[1])) ? [suspectKey(t)] : [])],
				option(width, height, t) {
					const nameRoom = Math.min(widest(of.groups), width * 0.3);
					const names = of.groups.map((name) => broken(name, nameRoom));
					const right = widest(values.map((value) => figure(value, of.unit))) + 12;
					const axis = axisOf(values, of.unit, { room: 0.01, count: Math.max(2, Math.floor((width - nameRoom - right) / 90)), log: false });
					return {
						grid: { left: nameRoom + 16, right, top: 4, bottom: 26 },
						tooltip: { formatter: (p) => {
							const value = of.series[p.seriesIndex].values[p.dataIndex];
							return [of.series[p.seriesIndex].name, `${of.groups[p.dataIndex]}: ${words(value && value[0], of.unit)}`, value && value[1]].filter(Boolean).map((part) => broken(part, 320)).join('\n');
						} },
						xAxis: axisOption(axis, of.unit, t),
						yAxis: { type: 'category', inverse: true, data: names, axisLabel: { color: t.ink, fontSize: FONT, interval: 0, lineHeight: 14 }, axisLine: { show: false }, axisTick: { show: false } },
						series: of.series.map((one, i) => ({
							type: 'bar', name: one.name, barWidth: bar, barGap: '15%',
							label: { show: true, position: 'right', color: t.faint, opacity: 1, fontSize: FONT, formatter: (p) => figure(p.value, of.unit) },
							data: one.values.map((value) => (value ? { value: value[0], itemStyle: value[1] ? { color: t.panel, borderColor: hue(t, i), borderWidth: 1.5 } : { color: hue(t, i), opacity: 0.9 } } : '-')),
						})),
					};
				},
			};
		},

		forest(of) {
			const factor = (value) => `${allDigits(value, 3)} x`;
			const verdictOf = (row) => (row.doubt ? ', suspect' : row.is_clear ? '' : `, ${row.words.split(':')[0]}`);
			const labelOf = (row) => (row.interval ? `${factor(row.ratio)} (${allDigits(row.interval[0], 3)} to ${allDigits(row.interval[1], 3)})${verdictOf(row)}` : `${factor(row.ratio)}, no interval${row.doubt ? ', suspect' : ''}`);
			return {
				height: 75 + 32 * of.rows.length,
				low: 75 + 48 * of.rows.length,
				rows: [['figure', 'ratio', 'low', 'high', 'verdict', 'reason for doubt'], ...of.rows.map((row) => [row.name, row.ratio, row.interval && row.interval[0], row.interval && row.interval[1], row.words, row.doubt || ''])],
				key: (t) => [
					...(of.rows.some((row) => row.interval) ? [{ name: `ratio with its ${of.interval}`, colour: t.data[0], dot: FILLED[0], always: true }] : []),
					...(of.rows.some((row) => row.is_clear && row.ratio < 1) ? [{ name: 'slower', colour: t.data[2], dot: FILLED[0], always: true }] : []),
					...(of.rows.some((row) => row.interval && !row.is_clear) ? [{ name: 'not distinguishable from 1', colour: t.data[3], dot: FILLED[0], always: true }] : []),
					...(of.rows.some((row) => !row.interval && !row.doubt) ? [{ name: 'ratio without an interval', colour: t.faint, dot: FILLED[0], always: true }] : []),
					...(of.rows.some((row) => row.doubt) ? [suspectKey(t, HOLLOW[3])] : []),
				],
				option(width, height, t) {
					const nameRoom = Math.min(widest(of.rows.map((row) => row.name)), width * 0.3);
					const names = of.rows.map((row) => broken(row.name, nameRoom));
					const inShort = (row) => `${factor(row.ratio)}${verdictOf(row)}`;
					const labels = of.rows.map((row) => (width < NARROW ? broken(inShort(row), width * 0.28) : broken(labelOf(row), 320)));
					const right = widest(labels) + 20;
					const axis = axisOf([1, ...of.rows.flatMap((row) => [row.ratio, ...(row.interval || [])])], 'x', { room: 0.08, count: Math.max(3, Math.floor((width - nameRoom - right) / 80)), log: true });
					// The line at 1 has a label; ticks next to it would cover the label.
					const room = width - nameRoom - 16 - right;
					const isApart = (tick) => Math.abs(place(axis, tick) - place(axis, 1)) * room > 40;
					axis.ticks = [...axis.ticks.filter((tick) => tick !== 1 && isApart(tick)), 1].sort((a, b) => a - b);
					// The name stands below the middle of the plot, which is not the middle of the picture.
					const middle = nameRoom + 16 + room / 2;
					const axisName = broken(`speed relative to ${of.reference}${axis.log ? ', log scale' : ''}`, 2 * Math.min(middle, width - middle) - 8, 2);
					const draw = (params, api) => {
						const row = of.rows[params.dataIndex];
						const y = api.coord([1, params.dataIndex])[1];
						const at = (value) => api.coord([value, params.dataIndex])[0];
						const colour = !row.interval ? t.faint : row.is_clear ? (row.ratio >= 1 ? t.data[0] : t.data[2]) : t.data[3];
						const children = [];
						if (row.interval) children.push(line(at(row.interval[0]), y, at(row.interval[1]), y, colour, { lineWidth: 6, lineCap: 'round', opacity: 0.4 }));
						const x = at(row.ratio);
						if (row.doubt) children.push({ type: 'polygon', shape: { points: [[x, y - 7], [x + 7, y], [x, y + 7], [x - 7, y]] }, style: { fill: t.panel, stroke: colour, lineWidth: 2 } });
						else children.push({ type: 'circle', shape: { cx: x, cy: y, r: 5 }, style: { fill: colour, stroke: colour, lineWidth: 2 } });
						children.push(text(t, width - right + 12, y, labels[params.dataIndex], { style: { textVerticalAlign: 'middle', fill: row.is_clear ? t.ink : t.faint } }));
						return { type: 'group', children };
					};
					return {
						grid: { left: nameRoom + 16, right, top: 4, bottom: 26 + nameRoomOf(axisName) },
						tooltip: { formatter: (p) => [of.rows[p.dataIndex].name, labelOf(of.rows[p.dataIndex]), of.rows[p.dataIndex].words, of.rows[p.dataIndex].doubt].filter(Boolean).map((part) => broken(part, 320)).join('\n') },
						xAxis: axisOption(axis, 'x', t, nameBelow(axisName)),
						yAxis: { type: 'category', inverse: true, data: names, axisLabel: { color: t.ink, fontSize: FONT, interval: 0, lineHeight: 14 }, axisLine: { show: false }, axisTick: { show: false } },
						series: [
							{ type: 'custom', renderItem: draw, data: of.rows.map((row, i) => [row.ratio, i]), clip: false },
							{ type: 'line', data: [], markLine: { silent: true, symbol: 'none', label: { show: false }, lineStyle: { color: t.ink, type: 'solid' }, data: [{ xAxis: 1 }] } },
						],
					};
				},
			};
		},

		trend(of) {
			const time = (at) => new Date(at * 1000).toISOString().replace('.000Z', 'Z');
			const regime = (dot) => (dot.regime === null ? '' : of.regimes[dot.regime]);
			// Series have a colour each; the dots of a single series have the colours of their regimes.
			const isSingle = of.series.length === 1;
			const all = of.series.flatMap((one) => one.dots);
			// The line of a series has a gap where runs are missing and where a run has no result.
			const pathOf = (one) => {
				const lost = new Set(one.gaps.map(([, to]) => to));
				return one.dots.filter((dot) => !dot.aside).flatMap((dot) => [...(lost.has(dot.at) ? [[dot.at * 1000 - 1, null]] : []), [dot.at * 1000, dot.value]]);
			};
			const kindOf = (dot, i) => (isSingle ? dot.regime ?? -1 : i);
			const indices = isSingle ? [...of.regimes.keys(), -1] : [...of.series.keys()];
			const groups = indices.flatMap((i) => [false, true].map((doubted) => ({
				i, doubted, dots: of.series.flatMap((one, at) => one.dots.filter((dot) => kindOf(dot, at) === i && dot.value !== null && Boolean(dot.remark) === doubted)),
			}))).filter((group) => group.dots.length);
			const colour = (i, t) => (i < 0 ? t.data[of.regimes.length ? 3 : 0] : t.data[i % 4]);
			const bandColour = (i, t) => (isSingle ? mix(t.panel, colour(i, t), 0.1) : mix(t.panel, t.ink, 0.06 + 0.08 * (i % 3)));
			// Periods have a letter, because their greys differ little.
			const letter = (i) => (isSingle ? '' : String.fromCharCode(65 + (i % 26)));
			const named = (i) => (isSingle ? (i < 0 ? (of.regimes.length ? 'regime unknown' : 'runs') : of.regimes[i]) : of.series[i].name);
			const nameOf = ({ i, doubted }) => `${named(i)}${doubted ? ', suspect' : ''}`;
			const symbol = (i) => (isSingle ? (i + 1) % 4 : symbolOf(i));
			const many = all.length > MANY;
			const bands = of.regimes.length > 1 ? of.bands : [];
			return {
				many,
				height: 400,
				rows: [['run began, UTC', `value, ${of.unit}`, 'regime', 'quoted', 'reason for doubt', 'configuration'], ...of.series.flatMap((one) => one.dots.map((dot) => [time(dot.at), dot.value, regime(dot), dot.aside ? 'no' : 'yes', dot.remark, one.name]))],
				key: (t) => [
					...groups.map((group) => ({ name: nameOf(group) + (group.doubted ? ' (hollow)' : ''), colour: colour(group.i, t), dot: (group.doubted ? HOLLOW : FILLED)[symbol(group.i)], always: group.doubted })),
					...(all.some((dot) => dot.aside) ? [{ name: 'small: part of a run in another regime', colour: t.faint, dot: '·' }] : []),
					...(isSingle ? [] : [...of.regimes.entries()].filter(([i]) => bands.some((band) => band.regime === i && band.to > band.from))
						.map(([i, name]) => ({ name: `${letter(i)}: period with ${name}`, colour: bandColour(i, t), dot: '█' }))),
				],
				option(width, height, t) {
					const values = all.map((dot) => dot.value).filter((value) => value !== null);
					const vertical = axisOf(values, of.unit, { room: 0.05, count: Math.floor(height / 60) });
					const left = widest(vertical.ticks.map((tick) => words(tick, of.unit))) + 12;
					const times = all.map((dot) => dot.at * 1000);
					const [from, to] = [times.reduce((a, b) => Math.min(a, b), Infinity), times.reduce((a, b) => Math.max(a, b), -Infinity)];
					const room = Math.max(to - from, 1000) * 0.02;
					const perPixel = (to - from + 2 * room) / Math.max(1, width - left - 24);
					const band = ({ from: begin, to: end, regime: i }) => [{
						xAxis: begin * 1000, itemStyle: { color: bandColour(i, t) },
						label: { show: !isSingle && (end - begin) * 1000 > 16 * perPixel, position: 'insideTop', formatter: letter(i), color: t.faint, fontSize: FONT },
					}, { xAxis: end * 1000 }];
					const dates = datesOf(from - room, to + room, Math.max(3, Math.floor((width - left) / 110)));
					const paths = of.series.map((one, i) => ({
						type: 'line', name: 'as quoted', data: pathOf(one), showSymbol: false, silent: true, connectNulls: false, lineStyle: { width: 1, color: isSingle ? t.data[3] : colour(i, t) }, itemStyle: { color: t.data[3] }, ...(many ? { sampling: 'minmax' } : {}),
					}));
					Object.assign(paths[0], {
						markArea: { silent: true, z: -1, data: bands.map(band) },
						markLine: { symbol: 'none', silent: true, lineStyle: { color: t.ink, type: 'dashed' }, label: { formatter: (p) => p.name, color: t.ink, fontSize: FONT, position: 'end' }, data: of.changes.slice(0, 4).map(([at, words]) => ({ xAxis: at * 1000, name: cut(words, width / 5) })) },
					});
					return {
						grid: { left, right: 24, top: 24, bottom: 66 },
						tooltip: { formatter: (p) => {
							const dot = p.seriesIndex >= paths.length && groups[p.seriesIndex - paths.length].dots[p.dataIndex];
							return dot ? [p.seriesName, time(dot.at), words(dot.value, of.unit), regime(dot), dot.remark].filter(Boolean).map((part) => broken(part, 320)).join('\n') : '';
						} },
						xAxis: { type: 'value', min: from - room, max: to + room, ...nameBelow(`time in UTC${vertical.log ? '; values in log scale' : ''}`), nameGap: 42, axisLabel: { customValues: dates.map((date) => date.at), formatter: (at) => (dates.find((date) => date.at === at) || { text: '' }).text, lineHeight: 15, verticalAlign: 'top', color: t.faint, fontSize: FONT, showMinLabel: true, showMaxLabel: true }, axisTick: { show: true, customValues: dates.map((date) => date.at) }, axisLine: { show: true, lineStyle: { color: t.line } }, splitLine: { show: true, lineStyle: { color: t.grid } }, nameTextStyle: { color: t.faint } },
						yAxis: axisOption(vertical, of.unit, t),
						series: [
							...paths,
							...groups.map(({ i, doubted, dots }) => ({
								type: 'scatter', name: nameOf({ i, doubted }), large: many && !doubted,
								data: many && !doubted ? dots.map((dot) => [dot.at * 1000, dot.value]) : dots.map((dot) => ({ value: [dot.at * 1000, dot.value], symbolSize: dot.aside || many ? 5 : 8 })), symbol: SYMBOLS[symbol(i)], symbolSize: many ? 3 : 8,
								itemStyle: doubted ? { color: t.panel, borderColor: colour(i, t), borderWidth: many ? 1 : 1.5 } : { color: colour(i, t) },
							})),
						],
					};
				},
			};
		},

		heat_map(of) {
			const cells = of.values.flatMap((row, r) => row.map((value, c) => [c, r, value])).filter((cell) => cell[2] > 0);
			const logs = cells.map((cell) => Math.log10(cell[2]));
			const [least, most] = [logs.reduce((a, b) => Math.min(a, b), Infinity), logs.reduce((a, b) => Math.max(a, b), -Infinity)];
			return {
				height: Math.min(560, Math.max(140, 92 + 32 * of.rows.length)),
				rows: [[`${of.axes[0]}, values in ${of.unit}`, ...of.columns], ...of.values.map((row, r) => [of.rows[r], ...row])],
				option(width, height, t) {
					const left = widest(of.rows) + 40;
					const cell = Math.min(CELL, (width - left - 16) / Math.max(1, of.columns.length));
					const right = width - left - cell * of.columns.length;
					// All cells have the prefix of the greatest value, which the name of the axis gives.
					const [scale, prefix] = PREFIXES.find(([scale]) => 10 ** most >= scale * 0.9999) || [1, ''];
					const short = (value) => allDigits(value / scale, 3);
					const labels = cells.map((one) => short(one[2]));
					const fits = widest(labels) + 6 < cell && (height - 70) / Math.max(1, of.rows.length) > 16;
					const share = (value) => (most > least ? (value - least) / (most - least) : 0);
					return {
						grid: { left, right, top: 8, bottom: fits ? 52 : 92 },
						tooltip: { formatter: (p) => `${of.rows[p.value[1]]}, ${of.columns[p.value[0]]}: ${words(10 ** p.value[2], of.unit)}` },
						xAxis: { type: 'category', data: of.columns, ...nameBelow(`${of.axes[1]}; ${fits ? `values in ${prefix}${of.unit}` : 'colours in log scale'}`), axisLabel: { hideOverlap: true, color: t.faint, fontSize: FONT, interval: Math.ceil(widest(of.columns) / cell * 1.15) - 1 }, axisLine: { show: false }, axisTick: { show: false }, nameTextStyle: { color: t.faint } },
						yAxis: { type: 'category', inverse: true, data: of.rows, name: of.axes[0], nameLocation: 'middle', nameRotate: 90, nameGap: widest(of.rows) + 16, axisLabel: { hideOverlap: true, color: t.faint, fontSize: FONT }, axisLine: { show: false }, axisTick: { show: false }, nameTextStyle: { color: t.faint } },
						visualMap: { show: !fits, type: 'continuous', min: least, max: most > least ? most : least + 1e-9, calculable: false, inRange: { color: [t.heat0, t.heat1] }, text: [most, least].map((value) => words(10 ** value, of.unit)), textStyle: { color: t.faint }, orient: 'horizontal', left: 'center', bottom: 0, itemHeight: 140, itemWidth: 12 },
						series: [{
							type: 'heatmap', itemStyle: { borderColor: t.panel, borderWidth: 1 },
							label: { show: fits, fontSize: FONT, fontWeight: 600 },
							data: cells.map(([c, r], i) => ({ value: [c, r, logs[i]], label: { formatter: () => labels[i], ...legible(mix(t.heat0, t.heat1, share(logs[i]))) } })),
						}],
					};
				},
			};
		},

		placement(nodes) {
			const label = ([cpu, threads]) => `cpu ${cpu}${threads.length ? `\nthread ${threads.join(', ')}` : ''}`;
			return {
				height: Math.min(560, 120 + 6 * nodes.reduce((sum, one) => sum + one.cpus.length, 0)),
				rows: [['node', 'cpu', 'threads'], ...nodes.flatMap((one) => one.cpus.map(([cpu, threads]) => [one.name, cpu, threads.join(' ')]))],
				option: (width, height, t) => ({
					tooltip: { formatter: (p) => p.name },
					series: [{
						type: 'treemap', roam: false, nodeClick: false, breadcrumb: { show: false }, left: 4, right: 4, top: 4, bottom: 4,
						upperLabel: { show: true, height: 24, color: t.ink, fontSize: FONT }, levels: [{ itemStyle: { gapWidth: 4, borderWidth: 0 }, upperLabel: { show: false } }, { itemStyle: { color: t.grid, borderColor: t.grid, borderWidth: 4, gapWidth: 4 } }],
						label: { fontSize: FONT, lineHeight: 15, color: t.ink }, sort: null,
						data: nodes.map((one) => ({
							name: one.name, value: one.cpus.length,
							children: one.cpus.map((cpu) => ({ name: label(cpu), value: 1, itemStyle: { color: cpu[1].length ? t.pale : t.panel } })),
						})),
					}],
				}),
			};
		},

		surface(of) {
			const { rows } = kinds.heat_map(of);
			const values = of.values.flat().filter((value) => value > 0);
			const [least, most] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), 0)];
			const isLog = most / least > WIDE;
			const height = (value) => (value > 0 ? (isLog ? Math.log10(value) : value) : NaN);
			const back = (z) => (isLog ? 10 ** z : z);
			const named = (names, name, t) => {
				const step = Math.max(1, Math.ceil(names.length / 5));
				return { type: 'value', min: 0, max: Math.max(1, names.length - 1), interval: step, name, nameGap: 32, axisLabel: { formatter: (i) => (Number.isInteger(i) && i % step === 0 && names[i]) || '', color: t.faint, lineHeight: 22 }, nameTextStyle: { color: t.ink, lineHeight: 22 }, axisLine: { lineStyle: { color: t.line } }, splitLine: { lineStyle: { color: t.line } } };
			};
			const data = of.rows.flatMap((_, r) => of.columns.map((_, c) => [c, r, height(of.values[r][c])]));
			return {
				rows, gl: true, height: 400,
				option(width, pixels, t) {
					// The axis ends at a tick, so that no two labels are printed over each other.
					const step = (([first, second]) => second - first)(ticksOf(0, most, of.unit, false, 4));
					const ends = isLog ? [Math.floor(Math.log10(least)), Math.ceil(Math.log10(most))] : [0, Math.ceil(most / step - 1e-9) * step];
					const ticks = { interval: isLog ? 1 : step };
					return {
						tooltip: { formatter: (p) => `${of.rows[p.value[1]]}, ${of.columns[p.value[0]]}: ${words(back(p.value[2]), of.unit)}` },
						visualMap: { show: true, type: 'continuous', dimension: 2, min: height(least), max: most > least ? height(most) : height(least) + 1e-9, calculable: false, inRange: { color: [t.pale, t.heat1] }, text: [most, least].map((value) => words(value, of.unit)), textStyle: { color: t.faint }, orient: 'vertical', right: 8, top: 'middle', itemHeight: 120, itemWidth: 12 },
						xAxis3D: named(of.columns, of.axes[1], t), yAxis3D: named(of.rows, of.axes[0], t),
						zAxis3D: { type: 'value', name: isLog ? 'log scale' : '', nameTextStyle: { color: t.faint }, min: ends[0], max: ends[1], ...ticks, axisLabel: { formatter: (value) => words(back(value), of.unit, 2), color: t.faint, lineHeight: 22 }, axisLine: { lineStyle: { color: t.line } }, splitLine: { lineStyle: { color: t.line } } },
						grid3D: { boxWidth: 130, boxDepth: 110, boxHeight: 60, postEffect: { enable: false }, temporalSuperSampling: { enable: false }, viewControl: { alpha: 22, beta: 35, distance: 200, center: [0, -12, 0], zoomSensitivity: 0, damping: 0 }, light: { main: { intensity: 1.1 }, ambient: { intensity: 0.6 } } },
						series: [{ type: 'surface', data, dataShape: [of.rows.length, of.columns.length], wireframe: { show: true, lineStyle: { color: t.line } }, shading: 'color' }],
					};
				},
			};
		},
	};

	// True if a line [x1, y1, x2, y2] meets a box [left, top, right, bottom].
	const crosses = ([x1, y1, x2, y2], [left, top, right, bottom]) => {
		let [from, to] = [0, 1];
		for (const [step, low, high] of [[x2 - x1, left - x1, right - x1], [y2 - y1, top - y1, bottom - y1]]) {
			if (step === 0) {
				if (low > 0 || high < 0) return false;
			} else {
				const [enter, leave] = [low / step, high / step].sort((a, b) => a - b);
				[from, to] = [Math.max(from, enter), Math.min(to, leave)];
				if (from > to) return false;
			}
		}
		return true;
	};

	// Maximum distance of the label of a point that no line crosses from its symbol, if a nearer one is crossed.
	const CLOSE = 54;

	// Labels of a roofline: peaks at the right end of their lines, levels along their roofs, points as near to their symbols
	// as there is room, with a line to the symbol where it is not next to it. No line crosses a label, if there is room. Points
	// without room for their name have a number; their numbers and names are returned.
	const roofLabels = ({ roofs, flat, roofText, t, width, narrow, plotX, plotRight, top, plotBottom, horizontal, yPixel, colour, points }) => {
		const made = [];
		const boxes = [];
		const behind = { ...halo(t), backgroundColor: t.panel };
		const xPixel = (value) => plotX + place(horizontal, value) * (plotRight - plotX);
		const lines = roofs.map((one) => one.dots.flatMap(([a, b]) => [xPixel(a), yPixel(b)]));
		const meets = (box, b) => box[2] >= b[0] && box[0] <= b[2] && box[3] >= b[1] && box[1] <= b[3];
		const isInside = (box) => box[0] >= plotX && box[2] <= width && box[1] >= top && box[3] <= plotBottom;
		const free = (box) => isInside(box) && !boxes.some((b) => meets(box, b));
		const clear = (box, own) => !lines.some((one, i) => i !== own && crosses(one, box));
		const all = points.flatMap((one, i) => one.dots.map(([a, b], k) => ({
			x: xPixel(a), y: yPixel(b), colour: colour(i), isShown: a > 0 && b > 0,
			name: narrow ? one.labels[k] : `${one.labels[k]}: ${words(b, 'FLOP/s', 3).replace('FLOP/s', '')}`,
		}))).filter((point) => point.isShown);
		const symbols = all.map(({ x, y }) => [x - 7, y - 7, x + 7, y + 7]);
		const heights = apart(flat.map((one) => yPixel(one.dots[1][1]) - 7), 16, 0, plotBottom - 14);
		flat.forEach((one, i) => {
			const name = roofText(one);
			const w = widthOf(name, FONT, 600);
			// Inside a narrow picture, the label stands as far to the right as no point has its symbol below it.
			const y = narrow ? Math.max(heights[i] - 9, top) : heights[i];
			const covers = (left) => symbols.some((b) => meets([left - 2, y - 1, left + w + 2, y + 15], b));
			const right = plotRight - w - 2;
			const steps = Array.from({ length: Math.max(1, Math.floor((right - plotX) / 8)) }, (_, k) => right - 8 * k);
			const x = narrow ? steps.find((left) => !covers(left)) ?? right : plotRight + 6;
			boxes.push([x - 2, y - 1, x + w + 2, y + 15]);
			made.push(text(t, x, y, name, { weight: 600, style: halo(t) }));
		});
		boxes.push(...symbols);
		// Finds the free place of a label that is nearest to its symbol or line, if possible one that no line crosses.
		const near = ({ x, y, name, colour: fill }) => {
			const w = widthOf(name);
			const directions = Array.from({ length: 16 }, (_, i) => [1, 0, 15, 2, 8, 7, 9, 4, 12, 14, 3, 13, 5, 11, 6, 10][i] * Math.PI / 8);
			const candidates = [10, 18, 28, 40, 54, 70, 90, 115, 145, 180].flatMap((far) => directions.map((angle) => {
				const [dx, dy] = [Math.cos(angle), -Math.sin(angle)];
				const [cx, cy] = [x + dx * (far + w / 2), y + dy * (far + 7)];
				// Towards the top and the bottom, the label stays above or below its symbol.
				const middle = Math.abs(dx) < 0.4 ? x + dx * far : cx;
				return { far, box: [middle - w / 2 - 2, cy - 7, middle + w / 2 + 2, cy + 7] };
			}));
			const end = ([left, up, right, down]) => [Math.min(Math.max(x, left), right), Math.min(Math.max(y, up), down)];
			// The line to the label crosses neither labels nor the symbols of other points, except those at the same place.
			const isLeader = ({ far, box }) => {
				if (far < 18) return true;
				const [toX, toY] = end(box);
				const length = Math.hypot(toX - x, toY - y) || 1;
				const start = [x + (toX - x) * 8 / length, y + (toY - y) * 8 / length];
				const isHere = (b) => Math.hypot((b[0] + b[2]) / 2 - x, (b[1] + b[3]) / 2 - y) < 4;
				return boxes.every((b) => isHere(b) || !crosses([...start, toX, toY], b));
			};
			const usable = candidates.filter((one) => free(one.box) && isLeader(one));
			// Near its symbol, a label may be crossed by a roof; a long line to the symbol is worse.
			const found = usable.find((one) => one.far <= CLOSE && clear(one.box)) || usable.find((one) => one.far <= 18)
				|| usable.find((one) => clear(one.box)) || usable[0];
			if (!found) return false;
			const { far, box } = found;
			boxes.push(box);
			if (far >= 18) made.push(line(x, y, ...end(box), fill, { opacity: 0.6 }));
			made.push(text(t, box[0] + 2, box[1], name, { style: { fill, ...behind } }));
			return true;
		};
		const slanted = roofs.filter((one) => !flat.includes(one));
		slanted.forEach((one, i) => {
			const [[x1, y1], [x2, y2]] = one.dots.map(([a, b]) => [xPixel(a), yPixel(b)]);
			const length = Math.hypot(x2 - x1, y2 - y1);
			const name = narrow ? one.name : `${one.name} ${words(one.dots[0][1] / one.dots[0][0], 'B/s', 3)}`;
			const w = widthOf(name);
			if (length < w + 16) return;
			const angle = Math.atan2(y1 - y2, x2 - x1);
			const centre = (share, lift) => [x1 + (x2 - x1) * share - Math.sin(angle) * lift, y1 + (y2 - y1) * share - Math.cos(angle) * lift];
			const covered = (share, lift) => {
				const [cx, cy] = centre(share, lift);
				const steps = Array.from({ length: Math.ceil(w / 12) + 1 }, (_, k) => -w / 2 + (w * k) / Math.ceil(w / 12));
				return steps.map((at) => [cx + Math.cos(angle) * at, cy - Math.sin(angle) * at]).map(([bx, by]) => [bx - 8, by - 8, bx + 8, by + 8]);
			};
			const inner = ([left, up, right, down]) => [left + 3, up + 3, right - 3, down - 3];
			const edge = (w / 2 + 6) / length;
			const shares = [0.72, 0.6, 0.5, 0.4, 0.8, 0.3, 0.2, 0.9].map((share) => Math.min(1 - edge, Math.max(edge, share - 0.03 * i)));
			const candidates = shares.flatMap((share) => [[share, 9], [share, -9]]);
			const usable = candidates.filter(([share, lift]) => covered(share, lift).every(free));
			const own = roofs.indexOf(one);
			const found = usable.find(([share, lift]) => covered(share, lift).every((box) => clear(inner(box), own)));
			if (!found) {
				const [x, y] = centre(0.5, 0);
				near({ x, y, name, colour: t.ink });
				return;
			}
			boxes.push(...covered(...found));
			const [x, y] = centre(...found);
			made.push(text(t, 0, 0, name, { at: { x, y, rotation: angle }, style: { textAlign: 'center', textVerticalAlign: 'middle', ...behind } }));
		});
		// Points without room for their name have a number, which the list below the picture explains.
		const unlabelled = all.filter((one) => !near(one));
		unlabelled.forEach(({ x, y, colour: fill }, i) => {
			const number = String(i + 1);
			if (!near({ x, y, name: number, colour: fill })) made.push(text(t, x + 6, y - 16, number, { weight: 600, style: { fill, ...halo(t) } }));
		});
		return { made, unlabelled: unlabelled.map((one, i) => `${i + 1} ${one.name}`) };
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

	// Height of a picture; charts on narrow screens are lower.
	const heightOf = (drawn, width) => (width < NARROW && drawn.low) || drawn.height || 340;

	// Options of a picture for its present size, on screens and on paper.
	const themed = (drawn, place) => {
		const t = theme();
		const width = paper.matches ? Math.min(place.clientWidth || 640, 640) : place.clientWidth || 640;
		const option = drawn.option(width, heightOf(drawn, width), t);
		const list = place.parentNode.querySelector('.unlabelled');
		if (list) list.textContent = drawn.unlabelled?.length ? `numbered points: ${drawn.unlabelled.join('; ')}` : '';
		return {
			animation: false,
			backgroundColor: 'transparent',
			color: t.data,
			textStyle: { color: t.ink, fontFamily: t.font, fontSize: FONT },
			...option,
			tooltip: { confine: true, renderMode: 'richText', backgroundColor: t.panel, borderColor: t.line, textStyle: { color: t.ink, fontSize: FONT }, ...option.tooltip },
		};
	};

	// Names of the curves above a picture; pictures with names at the ends of their curves have none.
	const keyOf = (drawn, place, key) => {
		const entries = drawn.key ? drawn.key(theme()) : [];
		const atEnds = place.dataset.kind === 'chart' && place.clientWidth >= NARROW;
		key.replaceChildren(...(atEnds ? entries.filter((entry) => entry.always) : entries.length > 1 || entries.some((entry) => entry.always) ? entries : []).map(({ name, colour, dash, dot, mark }) => {
			const entry = node('li', '');
			const sample = node('i', '', dot ? { class: 'dot' } : {});
			if (dot) { sample.style.color = colour; sample.textContent = dot; }
			else { sample.style.borderTopColor = colour; sample.style.borderTopStyle = dash; }
			entry.append(sample);
			if (mark) {
				const symbol = node('i', mark, { class: 'dot' });
				symbol.style.color = colour;
				entry.append(symbol);
			}
			entry.append(name);
			return entry;
		}));
	};

	const csv = (rows) => {
		const cell = (value) => {
			let text = value === null || value === undefined ? '' : String(value);
			// An apostrophe keeps spreadsheets from reading the text as a formula.
			const number = text !== '' && Number.isFinite(Number(text));
			if (/^[\s\p{Cf}]*[=+\-@\uff1d\uff0b\uff0d\uff20\t\r\n]./u.test(text) && !number) text = `'${text}`;
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
		const background = getComputedStyle(document.body).getPropertyValue('--panel').trim();
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
		const key = node('ul', '', { class: 'key', 'aria-hidden': 'true' });
		drawn.svg = !drawn.gl && !drawn.many;
		const tools = node('div', '', { class: 'tools' });
		if (kind === 'surface') figure.append(node('p', label, { class: 'faint' }));
		figure.append(key, place);
		if (flat) figure.append(node('p', 'no WebGL here: the surface is shown as a heat map', { class: 'faint' }));
		if (drawn.pick) figure.append(node('p', '', { class: 'unlabelled faint' }), node('p', 'Click on a point to see its run.', { class: 'picked', 'aria-live': 'polite' }));
		figure.append(tools);
		place.style.height = `${heightOf(drawn, place.clientWidth)}px`;
		const chart = echarts.init(place, null, { renderer: drawn.svg ? 'svg' : 'canvas' });
		chart.setOption(themed(drawn, place));
		keyOf(drawn, place, key);
		if (drawn.pick) chart.on('click', (p) => { figure.querySelector('.picked').textContent = drawn.pick(p) || ''; });
		charts.push({ chart, drawn, place, key, width: place.clientWidth });
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

	// Surface of a heat map. It is drawn when it is opened, because surfaces take the most time.
	const surfaceOf = (data) => {
		const details = node('details', '', { class: 'surface' });
		const place = node('div');
		details.append(node('summary', 'as a surface'), place);
		details.addEventListener('toggle', () => place.firstChild || draw(place, 'surface', data));
		return details;
	};

	const restyle = () => charts.forEach((one) => {
		const { chart, drawn, place, key } = one;
		one.width = place.clientWidth;
		place.style.height = `${heightOf(drawn, place.clientWidth)}px`;
		chart.resize(paper.matches ? { width: Math.min(place.clientWidth || 640, 640) } : {});
		chart.setOption(themed(drawn, place), { notMerge: !drawn.gl });
		keyOf(drawn, place, key);
	});

	const start = () => {
		for (const block of document.querySelectorAll('.block > .scroll > table')) {
			const title = block.closest('section').id;
			const value = (cell) => (cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value));
			const rows = () => [...block.rows].map((row) => [...row.cells].map(value));
			if (block.rows.length > 2) block.closest('.block').append(button('CSV', `table of ${title}`, () => saveCsv(fileName(title), rows())));
		}
		const figures = [...document.querySelectorAll('figure')].filter((figure) => figure.querySelector('script'));
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
			if (data.of.surface) figure.append(surfaceOf(data));
		};
		next();
		dark.addEventListener('change', restyle);
		paper.addEventListener('change', restyle);
		new ResizeObserver(() => charts.some(({ place, width }) => place.clientWidth !== width) && restyle()).observe(document.querySelector('main'));
	};

	start();
})();
