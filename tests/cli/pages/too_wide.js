new Promise((done) => setTimeout(() => done([...document.querySelectorAll('main *')]
    .filter((one) => document.documentElement.scrollWidth > innerWidth
        && one.getBoundingClientRect().right > innerWidth && !one.closest('.scroll'))
    .map((one) => one.outerHTML.slice(0, 120))), 50))
