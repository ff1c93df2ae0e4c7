/**
 * Unpacks the package @sparticuz/chromium into TMPDIR, which it reads at import. chromium.ts starts it as a process,
 * because the test process uses its own TMPDIR meanwhile.
 */
import chromium from '@sparticuz/chromium';

chromium.setGraphicsMode = false;
await chromium.executablePath();
