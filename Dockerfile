# The service in a container:
#   docker build --tag clusterfirst .
#   docker run --publish 127.0.0.1:8760:8760 --volume clusterfirst:/data \
#     --volume ./token:/run/token:ro clusterfirst
FROM python:3.11-slim
RUN useradd --create-home clusterfirst && mkdir /data && chown clusterfirst /data
COPY pyproject.toml constraints.txt README.md LICENSE /app/
COPY src /app/src
RUN pip install --no-cache-dir --constraint /app/constraints.txt "/app[serve]"
USER clusterfirst
# Compile once, into the image, not at every start.
RUN ["python", "-c", "from clusterfirst.solving.warming import warm_up; warm_up(); warm_up(limited=True)"]
VOLUME /data
EXPOSE 8760
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8760/ready')"]
CMD ["clusterfirst", "serve", "--host", "0.0.0.0", "--data", "/data", "--token-file", "/run/token"]
