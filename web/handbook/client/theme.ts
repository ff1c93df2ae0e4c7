/** Sets the theme before the page is drawn. The dashboard keeps the choice (web/src/shell/theme.ts). */
const kept = localStorage.getItem('letterhaus-theme');
if (kept === 'light' || kept === 'dark') document.documentElement.dataset['theme'] = kept;
