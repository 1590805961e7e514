[...document.querySelectorAll('.chart svg text')].map((text) => text.textContent)
