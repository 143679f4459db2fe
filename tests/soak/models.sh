# For soak.sh and unmounts.sh, behind lib.sh: what is mounted is a folder, into which models come and from which they go.
checkpoint=$MODEL
m=$mnt/soaked
MODEL=$work/models
mkdir -p "$MODEL/soaked"
cp "$checkpoint"/*.json "$checkpoint"/*.jinja "$MODEL/soaked"
ln -s "$checkpoint"/*.safetensors "$MODEL/soaked"
MOEFS=$(realpath "$MOEFS")
export MOEFS
