(() => {
    const channel = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const pen = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const luminance = (colour) => {
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((x) => channel(x / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const panel = luminance(getComputedStyle(document.body).getPropertyValue('--panel').trim());
    const contrast = (colour) => {
        const own = luminance(colour);
        return (Math.max(own, panel) + 0.05) / (Math.min(own, panel) + 0.05);
    };
    const isCell = (text) => text.closest('[data-kind=heat_map]') && /^[0-9.]+$/.test(text.textContent);
    const labels = [...document.querySelectorAll('.chart svg text')].filter((text) => !isCell(text));
    // The squares of periods have a letter.
    const symbols = [...document.querySelectorAll('.key i')].filter((one) => one.textContent !== '█');
    const colourOf = (symbol) => symbol.style.color || symbol.style.borderTopColor || getComputedStyle(symbol).color;
    return [
        ...labels.filter((text) => contrast(text.getAttribute('fill') || '#000') < 4.5).map((text) => text.textContent),
        ...symbols.filter((one) => contrast(colourOf(one)) < 3).map((one) => one.parentNode.textContent),
    ];
})()
