(() => {
    const outline = (text) => {
        const [box, to] = [text.getBBox(), text.getScreenCTM()];
        const [left, right] = [box.x + 1, box.x + box.width - 1];
        const [top, bottom] = [box.y + box.height * 0.2, box.y + box.height * 0.8];
        return [[left, top], [right, top], [right, bottom], [left, bottom]]
            .map(([x, y]) => new DOMPoint(x, y).matrixTransform(to));
    };
    const axes = (points) => points.map((point, i) => {
        const next = points[(i + 1) % 4];
        return [next.y - point.y, point.x - next.x];
    });
    const range = (points, [x, y]) => {
        const along = points.map((point) => point.x * x + point.y * y);
        return [Math.min(...along), Math.max(...along)];
    };
    const meet = (a, b) => [...axes(a), ...axes(b)].every((axis) => {
        const [[low, high], [from, to]] = [range(a, axis), range(b, axis)];
        return low < to && from < high;
    });
    const found = [];
    for (const chart of document.querySelectorAll('.chart')) {
        const frame = chart.getBoundingClientRect();
        const texts = [...chart.querySelectorAll('svg text')].filter((text) => text.textContent.trim());
        const labels = texts.map((text) => [text.textContent, outline(text)]);
        labels.forEach(([text, points], i) => {
            const outside = points.some(({x, y}) => x < frame.left - 1 || x > frame.right + 1
                || y < frame.top - 2 || y > frame.bottom + 2);
            if (outside) found.push(`cut off: ${text}`);
            const other = labels.slice(i + 1).find(([, others]) => meet(points, others));
            if (other) found.push(`overlap: ${text} / ${other[0]}`);
        });
    }
    for (const one of document.querySelectorAll('.row *, figcaption, h1, .conclusion, .facts, .trust p, .key li')) {
        if (one.closest('svg')) continue;
        const box = one.getBoundingClientRect();
        if (box.width > 0 && (box.right > innerWidth + 1 || one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')) {
            found.push(`cut off: ${one.textContent.slice(0, 60)}`);
        }
    }
    return found;
})()
