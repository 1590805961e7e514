new Promise((done) => {
    document.querySelectorAll('details:not(.surface)').forEach((details) => details.open = true);
    setTimeout(() => done([...document.querySelectorAll('figure')].map((figure) => ({
        title: figure.querySelector('figcaption').textContent,
        rows: [...figure.querySelectorAll('table tr')].map((row) =>
            [...row.cells].map((cell) => cell.textContent)),
    }))), 50);
})
