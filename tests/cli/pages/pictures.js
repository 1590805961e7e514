[...document.querySelectorAll('.chart')].map((chart) => {
    const svg = chart.querySelector('svg');
    const canvas = chart.querySelector('canvas');
    const dots = () => {
        const all = document.createElement('canvas');
        [all.width, all.height] = [200, 120];
        const context = all.getContext('2d');
        const image = echarts.getInstanceByDom(chart).getRenderedCanvas();
        context.drawImage(image, 0, 0, 200, 120);
        return context.getImageData(0, 0, 200, 120).data.filter((x) => x > 0).length;
    };
    return {kind: chart.dataset.kind, drawn: svg ? svg.querySelectorAll('path, text').length : canvas ? dots() : 0};
})
