/**
 * Unpacks the package @sparticuz/chromium into TMPDIR, which it reads when it is imported. Started by
 * chromium.ts as a process of its own, because others use the TMPDIR of a test process meanwhile.
 */
import chromium from '@sparticuz/chromium';

chromium.setGraphicsMode = false;
await chromium.executablePath();
