(async () => {
    const places = [...document.querySelectorAll('details.surface')];
    for (const place of places) {
        place.open = true;
        while (!place.querySelector('canvas, svg')) await new Promise((done) => setTimeout(done, 20));
    }
    return places.length;
})()
